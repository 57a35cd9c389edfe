#include "match/stacks.hpp"

#include <algorithm>

namespace narrows {

Stacks::Stacks(Network& network, Lexicon& lexicon, const Ir& ir, const Limits& limits)
    : network_(network),
      lexicon_(lexicon),
      names_(lexicon, limits.object_keys),
      max_items_(limits.live_items),
      max_bytes_(2 * limits.constraint_bytes),
      longest_(ir.longest) {
  nodes_ = {{kNone, 0}, {kNone, kCutSet}};
  set_offsets_ = {0, 1, 2};
  set_nodes_ = {kBottom, kCut};
  set_reads_ = {kNothing, kNothing};
  for (SetId set : {SetId{0}, kCutSet}) set_ids_.insert(hash_words(5, nodes(set)), set);
  configs_.push_back({0, 0, 0, false, false, false});
  accepting_.push_back(0);
  for (const auto& [term, spelling, name] : network.distincts())
    fixed_.push_back(name == kNone ? Names::kNotReading
                                   : names_.fixed(ir.string(name), is_string(static_cast<NameSpelling>(spelling))));
  const auto distincts = network.distincts();
  const auto spelling = [](const Network::Distinct& d) { return static_cast<NameSpelling>(d.spelling); };
  if (!distincts.empty() && is_string(spelling(distincts[0])) &&
      std::ranges::all_of(distincts, [&](const auto& d) { return spelling(d) == spelling(distincts[0]); }))
    name_spelling_ = spelling(distincts[0]);
  for (const Network::Guard& guard : network.guards()) {
    const std::size_t before = guarded_.size();
    for (std::uint32_t i = 0; i < guard.count; ++i)
      guarded_.push_back(names_.fixed(ir.string(guard.first + i), guard.string));
    const auto own = std::span(guarded_).subspan(before);
    std::ranges::sort(own);
    guarded_.resize(before + own.size() - std::ranges::unique(own).size());
    guarded_offsets_.push_back(static_cast<std::uint32_t>(guarded_.size()));
  }
}

bool Stacks::passes(std::uint32_t guard, NameSet names, Work& work) const {
  if (names == Names::kUnknown || names == Names::kAny) return names == Names::kAny;
  return names_.has_all(names, guarded(guard), work) != network_.guards()[guard].negated;
}

// Checked now and then: a single step may make many sets.
void Stacks::check_memory() const {
  if (bytes() > max_bytes_) limit_reached("constraint_bytes", "one step needs more memory than the limit allows");
}

std::uint32_t Stacks::intern_node(const Node& node) {
  std::uint64_t hash = mix(mix(1, node.state), node.below);
  if (node.names != Names::kNoNames || node.reading != Names::kNotReading)
    hash = mix(mix(hash, node.names), node.reading);
  if (node.tokens != kUncounted) hash = mix(hash, node.tokens);
  const std::uint32_t found = node_ids_.find(hash, [&](std::uint32_t i) { return nodes_[i] == node; });
  if (found != kNone) return found;
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(node);
  node_ids_.insert(hash, id);
  return id;
}

SetId Stacks::intern_set(std::vector<std::uint32_t>& nodes, Work& work) {
  work.spend(4 * nodes.size());
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return intern_sorted(nodes, work);
}

SetId Stacks::intern_sorted(std::span<const std::uint32_t> nodes, Work& work) {
  work.spend(8);
  if (nodes.size() > max_items_) limit_reached("live_items", "too many readings of the text are open at once");
  const std::uint64_t hash = hash_words(5, nodes);
  const SetId found = set_ids_.find(hash, [&](SetId id) { return std::ranges::equal(this->nodes(id), nodes); });
  if (found != kNone) return found;
  const auto id = static_cast<SetId>(set_offsets_.size() - 1);
  if (id % 64 == 0) check_memory();
  set_nodes_.insert(set_nodes_.end(), nodes.begin(), nodes.end());
  set_offsets_.push_back(static_cast<std::uint32_t>(set_nodes_.size()));
  std::uint8_t reads = kNothing;
  for (std::uint32_t n : nodes) {
    if (const NameText reading = nodes_[n].reading; reading != Names::kNotReading)
      reads |= Names::is_unread(reading) ? kUnreadName : reading < Names::kFixed ? kName : kNothing;
    if (const std::uint32_t tokens = nodes_[n].tokens; tokens != kUncounted)
      reads |= (tokens & kUntouched) != 0 ? kCount | kNoToken : kCount;
  }
  set_reads_.push_back(reads);
  set_ids_.insert(hash, id);
  return id;
}

// The set after a byte of the names that are being read in it, and of the terminals whose tokens are counted.
SetId Stacks::read_on(SetId set, std::uint8_t byte, Work& work) {
  if ((set_reads_[set] & (kName | kNoToken)) == 0) return set;
  std::vector<std::uint32_t> all(nodes(set).begin(), nodes(set).end());
  work.spend(8 * all.size());
  for (std::uint32_t& n : all) {
    Node node = nodes_[n];
    const bool counts = node.tokens != kUncounted;
    if (!counts && node.reading >= Names::kFixed) continue;
    if (node.reading < Names::kFixed) node.reading = names_.extend(node.reading, byte);
    if (counts) node.tokens &= ~kUntouched;
    n = intern_node(node);
  }
  return intern_set(all, work);
}

// The set of a terminal after a token of it. kNone where the terminal ends with the token.
SetId Stacks::count_token(SetId set, bool may_end, Work& work) {
  if ((set_reads_[set] & kCount) == 0) return set;
  std::vector<std::uint32_t> left;
  work.spend(8 * nodes(set).size());
  for (std::uint32_t n : std::vector(nodes(set).begin(), nodes(set).end())) {
    Node node = nodes_[n];
    if (node.tokens == kUncounted || (node.tokens & kUntouched) != 0) {
      left.push_back(n);
      continue;
    }
    if (node.tokens > 0) --node.tokens;
    if (node.tokens > 0 || !may_end) left.push_back(intern_node(node));
  }
  return left.empty() ? kNone : intern_set(left, work);
}

ConfigId Stacks::end_token(ConfigId config, Work& work) {
  if (const ConfigId known = known_end_token(config); known != kNone) return known;
  Draft& draft = fresh_draft();
  work.spend(8 + 2 * configs_[config].terms);
  for (const Item& item : items(config))
    if (const SetId returns = count_token(item.returns, lexicon_.terms()[item.label].nullable, work); returns != kNone)
      draft.terms.push_back({item.label, returns});
  draft.tokens.assign(token_items(config).begin(), token_items(config).end());
  draft.accepting = accepting(config);
  draft.reached_cut = reached_cut(config);
  draft.left_out = left_out(config);
  draft.next = next(config);
  // Where names leave nothing that could come after it, a terminal goes on.
  const bool goes_on = !draft.terms.empty() || !draft.tokens.empty() || draft.accepting;
  const ConfigId to = goes_on ? intern_config(draft, work) : config;
  token_ends_.insert(config, 0, to);
  return to;
}

SetId Stacks::unite(SetId x, SetId y, Work& work) {
  if (x == y) return x;
  std::vector<std::uint32_t> all(nodes(x).begin(), nodes(x).end());
  all.insert(all.end(), nodes(y).begin(), nodes(y).end());
  return intern_set(all, work);
}

// Sorts by label and unites the return sets of equal labels.
void Stacks::gather(std::vector<Item>& items, Work& work) {
  work.spend(4 * items.size());
  if (items.size() < 2) return;
  std::ranges::sort(items, {}, [](const Item& i) { return std::pair(i.label, i.returns); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < items.size();) {
    std::size_t j = i + 1;
    while (j < items.size() && items[j].label == items[i].label) ++j;
    SetId returns = items[i].returns;
    if (j - i == 2) {
      returns = unite(returns, items[i + 1].returns, work);
    } else if (j - i > 2) {
      std::vector<std::uint32_t> all;
      for (std::size_t k = i; k < j; ++k) {
        if (k > i && items[k].returns == items[k - 1].returns) continue;
        const auto some = nodes(items[k].returns);
        work.spend(some.size());
        all.insert(all.end(), some.begin(), some.end());
      }
      returns = intern_set(all, work);
    }
    items[kept++] = {items[i].label, returns};
    i = j;
  }
  items.resize(kept);
}

ConfigId Stacks::intern_config(Draft& draft, Work& work) {
  gather(draft.terms, work);
  gather(draft.tokens, work);
  const bool has_items = !draft.terms.empty() || !draft.tokens.empty();
  if (!has_items && !draft.accepting && !draft.reached_cut && !draft.left_out) return kDead;
  work.spend(16 + 2 * (draft.terms.size() + draft.tokens.size()));
  if (draft.terms.size() > max_items_) limit_reached("live_items", "too many readings of the text are open at once");
  const std::uint64_t flags = (draft.accepting ? 1u : 0u) + (draft.reached_cut ? 2u : 0u) + (draft.left_out ? 4u : 0u);
  std::uint64_t hash = mix(mix(8 + flags, draft.terms.size()), draft.tokens.size());
  if (draft.next != kNone) hash = mix(hash, draft.next);
  for (const auto* list : {&draft.terms, &draft.tokens})
    for (const Item& i : *list) hash = mix(mix(hash, i.label), i.returns);
  const auto equal_items = [](std::span<const Item> x, std::span<const Item> y) {
    return std::ranges::equal(
        x, y, [](const Item& p, const Item& q) { return p.label == q.label && p.returns == q.returns; });
  };
  const ConfigId found = config_ids_.find(hash, [&](ConfigId id) {
    return accepting(id) == draft.accepting && configs_[id].reached_cut == draft.reached_cut &&
           configs_[id].left_out == draft.left_out && next(id) == draft.next && equal_items(items(id), draft.terms) &&
           equal_items(token_items(id), draft.tokens);
  });
  if (found != kNone) return found;
  const auto id = static_cast<ConfigId>(configs_.size());
  const bool doubtful = !draft.accepting && draft.tokens.empty() &&
                        std::ranges::all_of(draft.terms, [&](const Item& i) { return this->doubtful(i, work); });
  configs_.push_back({static_cast<std::uint32_t>(items_.size()), static_cast<std::uint32_t>(draft.terms.size()),
                      static_cast<std::uint32_t>(draft.tokens.size()), draft.reached_cut, draft.left_out, doubtful,
                      draft.next});
  accepting_.push_back(draft.accepting ? 1 : 0);
  items_.insert(items_.end(), draft.terms.begin(), draft.terms.end());
  items_.insert(items_.end(), draft.tokens.begin(), draft.tokens.end());
  config_ids_.insert(hash, id);
  return id;
}

bool Stacks::doubtful(const Item& item, Work& work) const {
  if ((set_reads_[item.returns] & kUnreadName) == 0) return false;
  bool others = false;  // there may be other names to read
  for (std::uint32_t n : nodes(item.returns)) {
    if (!Names::is_unread(nodes_[n].reading)) return false;
    others = others || nodes_[n].reading == Names::kUnread;
  }
  return !others || !lexicon_.terms().endless(item.label, work);
}

Stacks::NameReadings Stacks::name_readings(ConfigId config) const {
  bool all = token_items(config).empty() && !accepting(config), some = false;
  for (const Item& item : items(config))
    for (std::uint32_t n : nodes(item.returns)) {
      const bool reads = nodes_[n].reading == Names::kSome;
      all = all && reads;
      some = some || reads;
    }
  return !some ? NameReadings::none : all ? NameReadings::all : NameReadings::some;
}

bool Stacks::names_above(SetId set, std::uint32_t depth, std::vector<NameSet>& out, Work& work) const {
  constexpr std::size_t kMost = 64;
  std::vector<std::uint32_t> here(nodes(set).begin(), nodes(set).end());
  for (std::size_t seen = 0; depth > 0 && !here.empty(); --depth) {
    seen += here.size();
    work.spend(4 * here.size());
    if (seen > kMost) return false;
    std::vector<std::uint32_t> next;
    for (std::uint32_t n : here) {
      if (n == kBottom || n == kCut) continue;
      const Node& node = nodes_[n];
      if (node.reading != Names::kNotReading) return false;
      if (node.names != Names::kNoNames && std::ranges::find(out, node.names) == out.end()) out.push_back(node.names);
      next.insert(next.end(), nodes(node.below).begin(), nodes(node.below).end());
    }
    here = std::move(next);
  }
  return true;
}

Stacks::Draft& Stacks::fresh_draft() {
  draft_.terms.clear();
  draft_.tokens.clear();
  draft_.accepting = draft_.reached_cut = draft_.left_out = false;
  draft_.next = kNone;
  return draft_;
}

ConfigId Stacks::start(Work& work) {
  Draft& draft = fresh_draft();
  close({}, true, draft, work);
  return intern_config(draft, work);
}

ConfigId Stacks::step(ConfigId config, std::uint8_t byte, Work& work) {
  if (const ConfigId known = steps_.find(config, byte); known != kNone) return known;
  work.spend(8 + 2 * configs_[config].terms);
  Draft& draft = longest_ ? open_ : fresh_draft();
  draft.terms.clear();
  std::vector<SetId>& ended = ended_;
  ended.clear();
  for (std::size_t i = 0; i < configs_[config].terms; ++i) {
    const Item item = items_[configs_[config].first + i];
    const TermId next = lexicon_.step(item.label, byte, work);
    if (next == kNever) continue;
    const SetId returns = read_on(item.returns, byte, work);
    if (lexicon_.terms()[next].nullable) ended.push_back(returns);
    if (next != kEmpty) draft.terms.push_back({next, returns});
  }
  ConfigId to = kDead;
  if (!longest_ && ended.size() == 1 && draft.terms.empty()) {
    to = after(ended[0], work);  // the same for every terminal that ends there
  } else if (!longest_) {
    if (!ended.empty()) close(ended, false, draft, work);
    to = intern_config(draft, work);
  } else if (!draft.terms.empty() || !ended.empty()) {
    to = keep_open(draft, ended, work);
  } else if (next(config) != kNone) {
    to = step(next(config), byte, work);  // which has no `next` itself
  }
  steps_.insert(config, byte, to);
  return to;
}

// By the longest match: the terminals that are open, and apart from them what may come after those that could end.
ConfigId Stacks::keep_open(Draft& open, std::span<const SetId> ended, Work& work) {
  Draft& after = fresh_draft();
  if (!ended.empty()) close(ended, false, after, work);
  const ConfigId next = ended.empty() ? kNone : intern_config(after, work);
  if (open.terms.empty()) return next;
  open.tokens = after.tokens;
  open.accepting = after.accepting;
  open.reached_cut = after.reached_cut;
  open.left_out = after.left_out;
  open.next = next;
  return intern_config(open, work);
}

ConfigId Stacks::step_token(ConfigId config, std::uint32_t token, Work& work) {
  std::vector<SetId> ended;
  work.spend(8 + 8 * token_items(config).size());
  for (const Item& item : token_items(config))
    if (std::ranges::binary_search(network_.token_set(item.label), token)) ended.push_back(item.returns);
  if (ended.empty()) return kDead;
  Draft& draft = fresh_draft();
  close(ended, false, draft, work);
  return intern_config(draft, work);
}

ConfigId Stacks::merge(ConfigId x, ConfigId y, Work& work) {
  if (x == kDead || x == y) return y;
  if (y == kDead) return x;
  Draft& draft = fresh_draft();  // by the longest match, no token is named that has bytes
  draft.accepting = accepting(x) || accepting(y);
  for (ConfigId c : {x, y}) {
    draft.terms.insert(draft.terms.end(), items(c).begin(), items(c).end());
    draft.tokens.insert(draft.tokens.end(), token_items(c).begin(), token_items(c).end());
  }
  return intern_config(draft, work);
}

Groups Stacks::stays(ConfigId config, Work& work) {
  const Config& c = configs_[config];
  if (c.terms != 1 || c.tokens != 0 || c.next != kNone || c.reached_cut || c.left_out || accepting(config)) return 0;
  const Item item = items_[c.first];
  const Term& term = lexicon_.terms()[item.label];
  if (term.nullable || term.op == Op::literals || term.op == Op::substrings) return 0;
  if ((set_reads_[item.returns] & (kName | kNoToken)) != 0) return 0;
  return lexicon_.loops(item.label, work);
}

ConfigId Stacks::after(SetId returns, Work& work) {
  if (const ConfigId known = after_.find(returns, 0); known != kNone) return known;
  Draft& draft = fresh_draft();
  close({&returns, 1}, false, draft, work);
  const ConfigId to = intern_config(draft, work);
  after_.insert(returns, 0, to);
  return to;
}

ConfigId Stacks::only(ConfigId config, std::span<const Item> items, Work& work) {
  Draft& draft = fresh_draft();
  draft.terms.assign(items.begin(), items.end());
  draft.accepting = accepting(config);
  return intern_config(draft, work);
}

SetId Stacks::top(SetId set, std::uint32_t depth, NameSet names, Work& work) {
  if (depth == 0) return set == 0 ? 0 : kCutSet;
  if (set == 0 || set == kCutSet) return set;
  const auto label = [&](std::uint32_t left) { return left * 2 + (names == Names::kAny ? 1 : 0); };
  if (const SetId known = tops_.find(set, label(depth)); known != kNone) return known;
  // Deepest first, so that a set is cut after those below it: an explicit stack, for a stack may be deep.
  struct Open {
    SetId set;
    std::uint32_t depth;
  };
  std::vector<Open> todo{{set, depth}};
  while (!todo.empty()) {
    const auto [at, left] = todo.back();
    if (tops_.find(at, label(left)) != kNone) {
      todo.pop_back();
      continue;
    }
    work.spend(8 + 8 * nodes(at).size());
    std::vector<std::uint32_t> cut;
    bool ready = true;
    const std::vector<std::uint32_t> own(nodes(at).begin(), nodes(at).end());
    for (std::uint32_t node : own) {
      if (node == kBottom || node == kCut) {
        cut.push_back(node);
        continue;
      }
      const SetId below = nodes_[node].below;
      SetId cut_below = below == 0 || below == kCutSet ? below
                        : left == 1                    ? kCutSet
                                                       : tops_.find(below, label(left - 1));
      if (cut_below == kNone) {
        todo.push_back({below, left - 1});
        ready = false;
      } else {
        Node kept = nodes_[node];
        kept.below = cut_below;
        if (kept.names != Names::kNoNames || kept.reading != Names::kNotReading) {
          kept.names = names;
          kept.reading = Names::kNotReading;
        }
        kept.tokens = kUncounted;
        cut.push_back(intern_node(kept));
      }
    }
    if (!ready) continue;
    todo.pop_back();
    tops_.insert(at, label(left), intern_set(cut, work));
  }
  return tops_.find(set, label(depth));
}

ConfigId Stacks::top_config(ConfigId config, std::uint32_t depth, Work& work) {
  const ConfigId after = next(config);
  const ConfigId top_after = after == kNone ? kNone : top_config(after, depth, work);  // which has no `next` itself
  Draft& draft = fresh_draft();
  draft.terms.assign(items(config).begin(), items(config).end());
  draft.tokens.assign(token_items(config).begin(), token_items(config).end());
  for (auto* list : {&draft.terms, &draft.tokens})
    for (Item& item : *list) item.returns = top(item.returns, depth, Names::kUnknown, work);
  draft.accepting = accepting(config);
  draft.next = top_after;
  return intern_config(draft, work);
}

const ByteSet& Stacks::first(ConfigId config, Work& work) {
  if (first_of_.size() <= config) first_of_.resize(configs_.size(), kNone);
  if (first_of_[config] == kNone) {
    ByteSet all = first_open(config, work);
    if (next(config) != kNone) all |= first_open(next(config), work);
    first_of_[config] = static_cast<std::uint32_t>(firsts_.size());
    firsts_.push_back(all);
  }
  return firsts_[first_of_[config]];
}

ByteSet Stacks::first_open(ConfigId config, Work& work) {
  ByteSet all;
  work.spend(2 * configs_[config].terms);
  for (std::size_t i = 0; i < configs_[config].terms; ++i)
    all |= lexicon_.first_clamped(items_[configs_[config].first + i].label, work);
  return all;
}

std::size_t Stacks::bytes() const {
  return held(fixed_) + held(guarded_) + held(guarded_offsets_) + held(nodes_) + held(set_nodes_) + held(set_offsets_) +
         held(configs_) + accepting_.bytes() + held(items_) + node_ids_.bytes() + set_ids_.bytes() +
         config_ids_.bytes() + held(set_reads_) + names_.bytes() + steps_.bytes() + token_ends_.bytes() +
         after_.bytes() + tops_.bytes() + held(first_of_) + held(firsts_);
}

}  // namespace narrows
