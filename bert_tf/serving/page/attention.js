// Which token looks where: a small map of every head, and for one of them the shares of each token.
// T tokens; attention[layer][head][from][to] are shares, each row of them sums to 1.
import { bars, make, panel } from "./elements.js";

const TOP = 5; // tokens in the list
let remembered = null; // the selection in the address: { layer, head, token }, from 0

export function fromAddress(text) {
  const [layer, head, token] = (text || "").split(".").map(number => Number(number) - 1);
  remembered = layer >= 0 && head >= 0 ? { layer, head, token } : null;
}

// A folded panel in `place`, which asks for the attention of a text once it is opened.
export function offer(place, ask, onChoice) {
  const close = () => { remembered = null; onChoice(""); };
  const box = panel(place, "Attention", ask, (answer, inside) => new View(answer, onChoice).into(inside), close);
  box.open = remembered !== null;
}

class View {
  constructor(answer, onChoice) {
    this.tokens = answer.tokens;
    this.layers = answer.attention;
    this.onChoice = onChoice;
    const mask = this.tokens.indexOf("[MASK]");
    const wanted = remembered || { layer: 0, head: 0 };
    this.layer = Math.min(wanted.layer, this.layers.length - 1);
    this.head = Math.min(wanted.head, this.layers[0].length - 1);
    const token = wanted.token >= 0 ? wanted.token : mask >= 0 ? mask : 1;
    this.token = Math.min(token, this.tokens.length - 1);
  }

  into(place) {
    this.title = make("h3");
    this.list = make("div");
    place.append(
      make("p", { class: "hint" }, "One row per layer, one column per head; in each map one row per token, colored where it attends. "
        + "Choose one, then a token. Arrow keys work in both. Long texts are truncated."),
      this.maps(), this.title, this.words(), this.list);
    this.choose({});
  }

  maps() {
    const heads = this.layers[0].length;
    const grid = make("div", { class: "maps", role: "radiogroup", "aria-label": "Layer and head" });
    grid.style.setProperty("--heads", heads);
    grid.append(make("span"), ...this.layers[0].map((_, head) => make("span", { class: "axis" }, String(head + 1))));
    this.buttons = this.layers.map((layer, number) => {
      grid.append(make("span", { class: "axis" }, String(number + 1)));
      return layer.map((shares, head) => {
        const button = make("button", { type: "button", role: "radio",
          "aria-label": `Layer ${number + 1}, head ${head + 1}` }, map(shares));
        button.addEventListener("click", () => this.choose({ layer: number, head }));
        grid.append(button);
        return button;
      });
    });
    grid.addEventListener("keydown", event => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const rows = this.layers.length;
      this.choose({ layer: (this.layer + step[0] + rows) % rows, head: (this.head + step[1] + heads) % heads });
      this.buttons[this.layer][this.head].focus();
    });
    return grid;
  }

  words() {
    const box = make("p", { class: "tokens", role: "radiogroup", "aria-label": "Attending token" });
    this.pieces = this.tokens.map((token, place) => {
      const word = make("button", { type: "button", role: "radio" }, token);
      for (const event of ["click", "focus", "pointerenter"])
        word.addEventListener(event, () => this.choose({ token: place }));
      box.append(word);
      return word;
    });
    box.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.pieces[(this.token + step + this.tokens.length) % this.tokens.length].focus();
    });
    return box;
  }

  choose(choice) {
    Object.assign(this, choice);
    remembered = { layer: this.layer, head: this.head, token: this.token };
    this.onChoice([this.layer, this.head, this.token].map(number => number + 1).join("."));
    this.update();
  }

  update() {
    const shares = this.layers[this.layer][this.head][this.token];
    const share = place => (shares && shares[place]) || 0;
    this.buttons.forEach((row, layer) => row.forEach((button, head) =>
      check(button, layer === this.layer && head === this.head)));
    this.pieces.forEach((word, place) => {
      check(word, place === this.token);
      word.style.setProperty("--share", Math.sqrt(share(place)).toFixed(3));
    });
    this.title.textContent = `Layer ${this.layer + 1}, head ${this.head + 1}: “${this.tokens[this.token]}” attends to`;
    const order = this.tokens.map((_, place) => place).sort((one, other) => share(other) - share(one));
    this.list.replaceChildren(bars(order.slice(0, TOP).map(place => [this.tokens[place], share(place)])));
  }
}

function check(button, isChosen) {
  button.setAttribute("aria-checked", isChosen);
  button.tabIndex = isChosen ? 0 : -1;
}

// A picture of [T][T] shares, a dot each; the root makes small ones visible.
function map(shares) {
  const size = shares.length, canvas = make("canvas", { width: size, height: size, "aria-hidden": "true" });
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const context = canvas.getContext("2d"), image = context.createImageData(size, size);
  shares.forEach((row, from) => row.forEach((share, to) =>
    image.data.set([...(dark ? [125, 179, 238] : [31, 95, 168]), 255 * Math.sqrt(share)], 4 * (from * size + to))));
  context.putImageData(image, 0, 0);
  return canvas;
}
