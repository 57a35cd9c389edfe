#include "grammar/ir.hpp"

#include "error.hpp"
#include "intern.hpp"

namespace narrows {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw Error("ir_invalid", std::string("the intermediate form is broken: ") + what);
}

void check_offsets(const std::vector<std::uint32_t>& offsets, std::size_t count, std::size_t total, const char* what) {
  require(offsets.size() == count + 1 && offsets.front() == 0 && offsets.back() == total, what);
  for (std::size_t i = 0; i < count; ++i) require(offsets[i] <= offsets[i + 1], what);
}

}  // namespace

void Ir::check(std::uint32_t vocabulary_size) const {
  const std::size_t n = size();
  require(n < 0x7fffffff && a.size() == n && b.size() == n, "node arrays differ in length");
  check_offsets(child_offsets, n, children.size(), "child offsets");
  require(!string_offsets.empty(), "string offsets");
  const std::size_t strings = string_offsets.size() - 1;
  check_offsets(string_offsets, strings, string_bytes.size(), "string offsets");
  require(!rules.empty() && rule_names.size() == rules.size() && start < rules.size(), "rules");
  for (std::uint32_t root : rules) require(root < n, "rule root");
  for (std::uint32_t t : tokens) require(t < vocabulary_size, "token id");

  std::vector<bool> regular(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    require(kinds[i] <= static_cast<std::uint8_t>(NodeKind::counted), "node kind");
    const auto inner = children_of(i);
    bool all_regular = true;
    for (std::uint32_t c : inner) {
      require(c < i, "a child does not come before its parent");
      all_regular = all_regular && regular[c];
    }
    regular[i] = all_regular && kind(i) < NodeKind::rule;
    const std::uint64_t end = static_cast<std::uint64_t>(a[i]) + b[i];
    switch (kind(i)) {
      case NodeKind::bytes:
        require(inner.empty() && a[i] < strings, "bytes node");
        break;
      case NodeKind::set:
        require(inner.empty() && a[i] < strings && string(a[i]).size() == 32, "set node");
        break;
      case NodeKind::literals:
        require(inner.empty() && end <= strings, "literals node");
        break;
      case NodeKind::substrings:
        require(inner.empty() && a[i] < strings && b[i] / 2 < strings, "substrings node");
        break;
      case NodeKind::seq:
      case NodeKind::alt:
        break;
      case NodeKind::repeat:
        require(inner.size() == 1 && a[i] <= b[i] && a[i] != 0xffffffff, "repeat node");
        break;
      case NodeKind::both:
        require(!inner.empty() && all_regular, "intersection of something that is not regular");
        break;
      case NodeKind::complement:
      case NodeKind::lexeme:
        require(inner.size() == 1 && all_regular, "complement or lexeme of something that is not regular");
        break;
      case NodeKind::rule:
        require(inner.empty() && a[i] < rules.size(), "rule node");
        break;
      case NodeKind::token:
        require(inner.empty() && end <= tokens.size(), "token node");
        break;
      case NodeKind::distinct:
        require(inner.size() == 1 && kind(inner[0]) == NodeKind::lexeme && a[i] < 3 && b[i] <= strings,
                "distinct node");
        break;
      case NodeKind::counted:
        require(inner.size() == 1 && kind(inner[0]) == NodeKind::lexeme && a[i] > 0 && a[i] <= kMostCounted,
                "counted node");
        break;
      case NodeKind::guard:
        require(inner.empty() && b[i] / 4 > 0 && static_cast<std::uint64_t>(a[i]) + b[i] / 4 <= strings, "guard node");
        break;
    }
  }
}

void Ir::sort_texts(std::uint64_t most_bytes) {
  texts.clear();
  text_bytes = 0;
  StepMap known;  // by string and unit: the number of the text
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (kind(i) != NodeKind::substrings) continue;
    const std::uint32_t unit = b[i] & 1;
    if (const std::uint32_t same = known.find(a[i], unit); same != kNone) {
      texts.push_back(texts[same]);
      continue;
    }
    if (text_bytes + Suffixes::most_bytes(string(a[i]).size()) > most_bytes)
      limit_reached("constraint_bytes", "a text whose parts are asked for needs more memory than the limit allows");
    known.insert(a[i], unit, static_cast<std::uint32_t>(texts.size()));
    texts.push_back(std::make_shared<const Suffixes>(string(a[i]), static_cast<Unit>(unit)));
    text_bytes += texts.back()->bytes() + kHeapBlock;
  }
}

std::size_t Ir::bytes() const {
  std::size_t names = held(rule_names);
  for (const std::string& name : rule_names) names += name.capacity() > 15 ? name.capacity() + 1 + kHeapBlock : 0;
  return names + text_bytes + held(texts) + held(kinds) + held(a) + held(b) + held(child_offsets) + held(children) +
         held(string_offsets) + held(string_bytes) + held(tokens) + held(rules);
}

}  // namespace narrows
