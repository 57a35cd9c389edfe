// What help() shows for the methods of a matcher. src/narrows/_core.pyi has the same texts for editors; a test compares
// them.
#pragma once

namespace narrows::docs {

inline constexpr const char* fill_mask =
    R"(Write the mask: which tokens may come now.

row: a writable int32[ceil(V/32)], C-contiguous, for the vocabulary's size V. Bit t & 31 of word t >> 5 is 1
if token t is allowed. End tokens are allowed where `is_accepting`, other special tokens only where the
grammar names them, and ids without bytes never. After the end (`is_finished`) it is all zero.

Does not change the position. Cost: a copy, about a microsecond for 128,000 tokens, if the mask is known; else
tens of microseconds, without the GIL. Raises InputError `mask_shape` or `wrong_type`, and LimitError
`step_work` or `sequence_work`.)";

inline constexpr const char* accept =
    R"(Take the token, if it is allowed. False, and nothing changes, if it is not.

An end token that is taken ends the text (`is_finished`). After that every token is refused. Makes no mask.
Cost: well under a microsecond if the token's bytes were seen at this place before. Raises TokenError for an
id outside the vocabulary, and LimitError `step_work` or `sequence_work`; then nothing changes.)";

inline constexpr const char* try_accept =
    R"(`accept`, but it never waits: None, and nothing changes, if it is not known yet where the token leads, or if
another thread computes for the constraint. An end token is never known. For a thread that must not be held
up. Raises TokenError for an id outside the vocabulary.)";

inline constexpr const char* try_accepts =
    R"(`accepts`, but it never waits: None if it is not known yet where the tokens lead, or if another thread
computes for the constraint. Changes nothing. Raises TokenError for an id outside the vocabulary.)";

inline constexpr const char* accept_bytes =
    R"(Take the bytes as one step, however they are cut into tokens. False, and nothing changes, if they do not fit.

They are ordinary text: neither an end nor a special token. A character may be cut. Cost: linear in the bytes.
Raises InputError `wrong_type`, and LimitError `step_work` or `sequence_work`.)";

inline constexpr const char* accepts =
    R"(How many of the tokens would be accepted in a row. Changes nothing, and makes no mask. Raises TokenError for
an id outside the vocabulary, and LimitError `step_work` or `sequence_work`.)";

inline constexpr const char* rollback =
    R"(Take back the last n steps: a token is one, and so is each `accept_bytes`. Cost: that of cutting a list.
Raises InputError `rollback_too_far` if there are fewer.)";

inline constexpr const char* reset = R"(Go back to the start of the text. What the constraint has computed is kept.)";

inline constexpr const char* is_accepting =
    R"(Whether the text so far is a complete text of the grammar, so that it may end here.)";

inline constexpr const char* is_finished =
    R"(Whether an end token was accepted. The mask is then all zero, and every token is refused.)";

inline constexpr const char* length = R"(The number of accepted steps: tokens, and calls of `accept_bytes`.)";

inline constexpr const char* forced_bytes =
    R"(The bytes that must come next, at most `at_most`: as long as there is one way to go on, and the text may not
end before. b"" if there is none, or if a special token may come. A character may be cut. Changes nothing.
Raises LimitError.)";

inline constexpr const char* single_tokens =
    R"(The next tokens as long as the mask has a single one, at most `at_most`. Changes nothing. `forced_tokens` says
more. Cost: a mask for each token. Raises LimitError.)";

inline constexpr const char* only_token =
    R"(The special token that the grammar names here, if nothing else may come. None otherwise. Makes no mask.)";

inline constexpr const char* shortest_parts =
    R"(What ends the text with the fewest bytes: bytes, and ids of tokens that the grammar names, in order.
`shortest_end` has it as tokens. Raises InputError `no_shortest_end` if no end is within reach, and
LimitError.)";

inline constexpr const char* explanation =
    R"(The facts behind `explain`, as a dict: `allowed`, `offset`, `rules`, `expected` (bytes as ints),
`end_expected` and `named_tokens`. Changes nothing. Raises TokenError for an id outside the vocabulary.)";

inline constexpr const char* fill_draft_masks =
    R"(The masks along a draft, in one call. Changes nothing.

tokens: n ids. rows: int32[n + 1, ceil(V/32)], C-contiguous. Row 0 is the mask after the text so far, and row
i + 1 that after tokens[i]. parents: for a tree, the index of the token that each one follows, -1 for the text
so far; it must be smaller than the token's own. Without it, each follows the one before. Rows after a token
that does not fit are all zero.

Cost: that of an `accept` and a `fill_mask` for each token. Raises InputError `mask_shape`, `invalid_input` or
`wrong_type`, TokenError, and LimitError.)";

inline constexpr const char* fill_ending_mask =
    R"(The mask without the tokens after which more than `at_most` further tokens would be needed to end the text.
The end token is not counted.

Cost: that of a step for each token of the mask, and of a shortest end for each place that they lead to. So it
is for the last tokens of a budget. Raises as `fill_mask` does, and InputError `no_shortest_end`.)";

inline constexpr const char* fill_healing_mask =
    R"(The mask of the tokens that spell `before` again, or the beginning of it, and then go on as the grammar
allows. For token healing: `before` is the end of a prompt that was taken away. Raises as `fill_mask` does.)";

inline constexpr const char* history =
    R"(The ids of the last accepted steps, in order. -1 stands for one of `accept_bytes`.)";

inline constexpr const char* steps =
    R"(All accepted steps, in order: a token's id, or the bytes of one of `accept_bytes`.)";

inline constexpr const char* state_key =
    R"(A number for the place in the grammar. While the constraint's cache is not emptied (`Constraint.stats`,
`epoch`), equal keys mean that equal texts may follow. It says nothing across constraints or processes.)";

}  // namespace narrows::docs
