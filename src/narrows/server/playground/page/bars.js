// A list of tokens with their probabilities.

import { el, quotedToken, svg, tokenText } from "./dom.js";

export function bars(list, tokens, chosen) {
  list.replaceChildren(
    ...tokens.map((token) => {
      const refused = token.allowed === false;
      const bar = svg(
        "svg",
        { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { width: 100 * token.p, height: 8 }),
      );
      const name = el("span", {
        text: quotedToken(token),
        title: refused ? "the definition does not allow it" : tokenText(token),
      });
      if (refused) name.setAttribute("aria-label", `${tokenText(token)}, not allowed`);
      return el(
        "li",
        { class: `${refused ? "refused" : ""} ${token.id === chosen ? "chosen" : ""}` },
        name,
        bar,
        el("span", { text: `${(100 * token.p).toFixed(1)} %` }),
      );
    }),
  );
}
