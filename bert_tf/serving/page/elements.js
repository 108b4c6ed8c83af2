// Building blocks shared by several parts of a page.

export const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

export const percent = value => (100 * value).toFixed(value < 0.0995 ? 1 : 0) + "%";

// A folded panel in `place`; once it is opened, `show(prediction, inside)` draws what `ask()` answers.
export function panel(place, title, ask, show, onClose = () => {}) {
  const box = make("details", {}, make("summary", {}, title)), inside = make("div");
  box.append(inside);
  box.addEventListener("toggle", async () => {
    if (!box.open) return onClose();
    inside.replaceChildren(make("p", { class: "small" }, "Loading ..."));
    const found = await ask();
    if (!inside.isConnected) return; // something else is shown by now
    inside.replaceChildren();
    if (found.error) inside.append(make("p", { class: "error" }, found.error));
    else show(found.predictions[0], inside);
  });
  place.replaceChildren(box);
  return box;
}

const LONG = 24; // characters of a label that stands above its bar, and then all do: bars of one list have one scale

// [[label, share], ...] as a bar each, the first one in bold; `format` writes the share.
export function bars(pairs, format = percent) {
  const box = make("div"), isLong = pairs.some(([label]) => label.length > LONG);
  pairs.forEach(([label, value], place) => {
    const fill = make("i");
    fill.style.width = Math.max(0, Math.min(100, 100 * value)) + "%";
    const kinds = ["row", place ? "" : "best", isLong ? "long" : ""];
    box.append(make("div", { class: kinds.join(" ") }, make("span", { class: "name" }, label),
      make("span", { class: "bar", "aria-hidden": "true" }, fill), make("span", { class: "number" }, format(value))));
  });
  return box;
}
