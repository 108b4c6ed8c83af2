// Which tokens speak for a prediction and which against it, by integrated gradients.
import { make, panel } from "./elements.js";

const TOP = 8; // tokens in the list

// A folded panel in `place`; `ask` requests the attributions, `nameOf(answer)` names the explained output.
export function offer(place, ask, nameOf) {
  panel(place, "Attribution", ask, (answer, inside) => show(answer, inside, nameOf(answer)));
}

function show(answer, inside, name) {
  const tokens = answer.tokens.slice(0, answer.lengths), values = answer.attributions.slice(0, answer.lengths);
  const largest = Math.max(...values.map(Math.abs), 1e-9);
  const text = make("p", { class: "tokens" });
  tokens.forEach((token, place) => {
    const word = make("span", { title: signed(values[place]), class: values[place] < 0 ? "against" : "for" }, token);
    word.style.setProperty("--share", (Math.abs(values[place]) / largest).toFixed(3));
    text.append(word, " ");
  });
  const order = tokens.map((_, place) => place).filter(place => values[place])
    .sort((one, other) => Math.abs(values[other]) - Math.abs(values[one])).slice(0, TOP);
  inside.append(
    make("p", { class: "hint" }, "How much each token changes the logit of ", make("strong", {}, name),
      ", compared with [MASK] in its place: ", make("span", { class: "key for" }, "for it"), ", ",
      make("span", { class: "key against" }, "against it"), ". Long texts are truncated."),
    text, balance(order.map(place => [tokens[place], values[place]]), largest), make("p", { class: "small" }, check(answer, values)));
}

// Bars to both sides of a line.
function balance(pairs, largest) {
  const box = make("div");
  for (const [token, value] of pairs) {
    const fill = make("i", { class: value < 0 ? "against" : "for" });
    fill.style.width = 50 * Math.abs(value) / largest + "%";
    box.append(make("div", { class: "row" }, make("span", { class: "name" }, token),
      make("span", { class: "bar balance", "aria-hidden": "true" }, fill), make("span", { class: "number" }, signed(value))));
  }
  return box;
}

// Completeness: the sum of the attributions, next to the difference that they have to explain.
function check(answer, values) {
  const sum = values.reduce((total, value) => total + value, 0), difference = answer.outputs - answer.baseline_outputs;
  return `Sum ${signed(sum)}; the logit is ${plain(answer.outputs)}, with [MASK] for every token `
    + `${plain(answer.baseline_outputs)}: a difference of ${signed(difference)}.`;
}

const plain = value => (value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(2);
const signed = value => (value < 0 ? "" : "+") + plain(value);
