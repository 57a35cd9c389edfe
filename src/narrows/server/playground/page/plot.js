// How many tokens each mask allowed, as a line, and how long it took, as bars. Both axes are logarithmic.

import { el, svg } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [460, 150, 44, 60, 8, 20];

export function plot(figure, places, vocabulary) {
  figure.hidden = places.length < 2;
  if (figure.hidden) return;
  const wide = WIDTH - LEFT - RIGHT;
  const high = HEIGHT - TOP - BOTTOM;
  const x = (i) => LEFT + (wide * (i + 0.5)) / places.length;
  const most = Math.log10(vocabulary);
  const y = (count) => TOP + high - (high * Math.log10(Math.max(1, count))) / most;
  const slowest = Math.max(...places.map((place) => place.us), 1);
  const bar = Math.max(1, (wide / places.length) * 0.7);
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": "plot-caption" });
  drawn.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: TOP + high, y2: TOP + high }));
  places.forEach((place, i) => {
    const tall = (high * Math.log1p(place.us)) / Math.log1p(slowest);
    drawn.append(svg("rect", { class: "time", x: x(i) - bar / 2, y: TOP + high - tall, width: bar, height: tall }));
  });
  const line = places.map((place, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(place.allowed).toFixed(1)}`).join("");
  drawn.append(svg("path", { class: "count", d: line }));
  for (const count of [1, 100, 10_000].filter((one) => one <= vocabulary)) {
    drawn.append(svg("text", { x: LEFT - 6, y: y(count) + 4, "text-anchor": "end", text: count.toLocaleString("en") }));
  }
  drawn.append(svg("text", { x: WIDTH - RIGHT + 6, y: TOP + 10, text: `${Math.round(slowest)} µs` }));
  drawn.append(svg("text", { x: LEFT, y: HEIGHT - 5, text: "first token" }));
  drawn.append(svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end", text: `place ${places.length}` }));
  const times = places.map((place) => place.us).sort((a, b) => a - b);
  const counts = places.map((place) => place.allowed);
  const text = `Line: tokens allowed at each place, ${Math.min(...counts).toLocaleString("en")} to ${Math.max(...counts).toLocaleString("en")} of ${vocabulary.toLocaleString("en")}. Bars: time of the mask, median ${times[times.length >> 1]} µs, at most ${slowest} µs. Both axes are logarithmic.`;
  figure.replaceChildren(drawn, el("figcaption", { id: "plot-caption", text }));
}
