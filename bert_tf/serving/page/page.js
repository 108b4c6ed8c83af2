// The page: a tab for each model, a form for its inputs, and its predictions, in words and pictures.
import * as attention from "./attention.js";
import * as attribution from "./attribution.js";
import { bars, make, percent } from "./elements.js";
import { askForToken, asCurl, predict, request, verbOf } from "./requests.js";

const $ = id => document.getElementById(id);

const pair = (one, other) => one.trim() + " ||| " + other.trim(); // as the attention signature takes it

// The fields of each form, [name of the input, label, lines, an example] each; how its answer is shown, and the text of
// the attention view.
const FORMS = {
  masked_lm: { title: "Fill the mask", hint: "Write [MASK] for a missing token.",
    fields: [["text", "Text", 3, "The [MASK] statement raises an exception."]],
    show: showMasks, looks: given => given.text },
  classes: ofTexts("Classify"), multi_label: ofTexts("Classify"), regression: ofTexts("Rate"),
  choice: { title: "Choose", hint: "One choice per line.",
    fields: [["text_a", "Beginning", 2, ""], ["choices", "Choices", 4, ""]],
    show: showLabel, looks: (given, answer) => pair(given.text_a, given.choices[best(answer.probabilities)]) },
  span: { title: "Answer a question", hint: "",
    fields: [["question", "Question", 2, ""], ["context", "Text", 8, ""]],
    show: showAnswer, looks: given => pair(given.question, given.context) },
  tags: { title: "Find entities", hint: "", fields: [["text", "Text", 5, ""]],
    show: showEntities, looks: given => given.text },
  vectors: { title: "Similar sentences", hint: "One sentence per line; each is compared with the first.",
    fields: [["text", "Sentences", 6, ""]], lines: true,
    show: showSimilar, looks: given => linesOf(given.text)[0] },
  zero_shot: { title: "Your own labels", hint: "One label per line.",
    fields: [["text", "Text", 4, ""], ["labels", "Labels", 3, ""]], show: showLabel },
  search: { title: "Search", hint: "",
    fields: [["query", "Query", 2, ""]], show: showHits },
};

// The form of a kind that takes a text or a pair.
function ofTexts(title) {
  return { title, hint: "", fields: [["text_a", "Text", 4, ""]], show: showLabel, looks: given => given.text_a,
    ofPairs: { title: "Compare two texts", hint: "",
      fields: [["text_a", "First text", 3, ""], ["text_b", "Second text", 3, ""]],
      show: showLabel, looks: given => pair(given.text_a, given.text_b) } };
}

// An NLI model as one that takes labels.
const zeroShot = model => ({ ...model, id: model.name + ":" + ZERO_SHOT, form: ZERO_SHOT, signature: ZERO_SHOT,
  inputs: ["text", "labels"], labels: [], examples: [] });

// The form for a model; undefined if its inputs are others.
function formOf(model) {
  const form = FORMS[model.form];
  const fits = each => each && each.fields.every(([name]) => model.inputs.includes(name)) && each.fields.length === model.inputs.length;
  return [form, form && form.ofPairs].find(fits);
}
const best = values => values.indexOf(Math.max(...values));
const MOST = 10, MOST_LABELS = 20; // labels (or texts found) in the list of an answer, and below
const WORDS_OF_EXAMPLES = 4, MOST_OF_EXAMPLES = 24; // words on the button of an example, and characters of long ones
const MOST_CHARACTERS = 600; // of a text found
const ZERO_SHOT = "zero_shot"; // the signature of NLI models that takes labels
let models = [], current = null;
let asked = 0; // counts requests: only the last one is shown

async function start() {
  const { status, json } = await request("v1/models");
  if (status !== 200) {
    if (status === 401) askForToken($("about"), start);
    else $("answer").replaceChildren(make("p", { class: "error" }, json.error));
    return;
  }
  models = json.models.flatMap(model => [{ ...model, id: model.name }, ...(model.signatures.includes(ZERO_SHOT) ? [zeroShot(model)] : [])]);
  for (const model of models) {
    const title = (formOf(model) || { title: "Other" }).title;
    const isOnly = models.filter(each => (formOf(each) || { title: "Other" }).title === title).length === 1;
    const tab = make("button", { role: "tab", type: "button", id: "tab-" + model.id, "aria-controls": "panel",
      title: model.name }, isOnly ? title : `${title}: ${model.name}`);
    tab.addEventListener("click", () => open(model, {}));
    tab.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = models[(models.indexOf(model) + step + models.length) % models.length];
      open(next, {});
      $("tab-" + next.id).focus();
    });
    $("tabs").append(tab);
  }
  fromAddress();
  addEventListener("hashchange", fromAddress);
}

function fromAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const model = models.find(each => each.id === given.model) || models[0];
  if (!model) return;
  open(model, given);
  attention.fromAddress(given.look);
  if (given.model && formOf(model) && formOf(model).fields.every(([name]) => given[name])) ask();
}

function open(model, given) {
  current = model;
  asked++;
  const kind = formOf(model);
  for (const each of models) {
    const chosen = each === model;
    $("tab-" + each.id).setAttribute("aria-selected", chosen);
    $("tab-" + each.id).tabIndex = chosen ? 0 : -1;
  }
  $("panel").setAttribute("aria-labelledby", "tab-" + model.id);
  $("form").replaceChildren();
  for (const place of ["command", "answer", "attribution", "attention"]) $(place).replaceChildren();
  attention.fromAddress("");
  document.title = model.name;
  $("about").replaceChildren(aboutModel(model));
  showFoot(model);
  if (!kind) {
    const metadata = make("a", { href: `v1/models/${encodeURIComponent(model.name)}/metadata` }, "its metadata");
    $("form").append(make("p", { class: "hint" }, "This page has no form for the inputs of this model: see ", metadata, "."));
    return;
  }
  if (kind.hint) $("form").append(make("p", { class: "hint" }, kind.hint));
  for (const [name, label, lines, example] of kind.fields) {
    const field = lines > 1 ? make("textarea", { rows: lines }) : make("input", { type: "text" });
    field.id = field.name = name;
    field.required = true;
    field.value = given[name] || example;
    field.addEventListener("input", () => $("command").replaceChildren());
    field.addEventListener("keydown", event => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
    });
    $("form").append(make("label", { for: name }, label), field);
  }
  const copy = make("button", { type: "button", class: "second" }, "Copy as curl");
  copy.addEventListener("click", () => copyCommand(copy));
  $("form").append(make("button", { class: "go", title: "Ctrl+Enter" }, model.kind === "search" ? "Search" : "Answer"), copy);
  addExamples(model, kind, kind.fields.some(([name]) => given[name]));
}

// Its name, and the score and date of its run.
function aboutModel(model) {
  const words = [make("strong", {}, model.name)];
  if (model.score) {
    const { name, value } = model.score;
    const isShare = /(accuracy|f1)$/.test(name) && value <= 1;
    const shown = isShare ? `${(100 * value).toFixed(1)}%` : Math.abs(value) <= 1 ? value.toFixed(4) : value.toFixed(2);
    words.push(`${name.replaceAll("_", " ").replace("f1", "F1")} ${shown}`);
  }
  if (model.texts) words.push(model.texts.toLocaleString("en-GB") + " texts");
  if (model.date) words.push(new Date(model.date + "T00:00").toLocaleDateString("en-GB", { dateStyle: "medium" }));
  return make("p", { class: "about" }, ...words.flatMap((word, place) => (place ? [" · ", word] : [word])));
}

function showFoot(model) {
  const labels = model.labels.slice(0, MOST_LABELS).join(", ") + (model.labels.length > MOST_LABELS ? ", ..." : "");
  const like = model.kind === "search" ? ". " : ", as in TensorFlow Serving. ";
  $("foot").replaceChildren("POST /v1/models/" + model.name + verbOf(model) + like
    + (labels ? "Labels: " + labels + ". " : ""));
  $("foot").append(make("a", { href: "docs" }, "All routes"), ".");
}

// Buttons that fill in examples of the development set; the first is there from the beginning.
function addExamples(model, kind, isFilled) {
  if (!model.examples.length) return;
  const fill = example => {
    for (const [name] of kind.fields) {
      $(name).value = Array.isArray(example[name]) ? example[name].join("\n") : example[name];
      $(name).dispatchEvent(new Event("input"));
    }
  };
  const buttons = model.examples.map(example => {
    const texts = Object.values(example).flat();
    const button = make("button", { type: "button", class: "second", title: texts.join("\n") },
      firstWords(texts.join(" ")));
    button.addEventListener("click", () => { fill(example); toAddress(); ask(); });
    return button;
  });
  $("form").prepend(make("p", { class: "examples" }, "Examples of the development set ", ...buttons));
  if (!isFilled) fill(model.examples[0]);
}

const firstWords = text => {
  const words = text.trim().split(/\s+/), first = words.slice(0, WORDS_OF_EXAMPLES).join(" ");
  const shown = first.length > 2 * MOST_OF_EXAMPLES ? first.slice(0, MOST_OF_EXAMPLES) : first;
  return shown === words.join(" ") ? shown : shown + " ...";
};

async function copyCommand(button) {
  const text = asCurl(current, bodyOf(current, inputs()));
  const shown = make("pre", { tabindex: "0", "aria-label": "Command" }, text);
  $("command").replaceChildren(shown);
  try {
    await navigator.clipboard.writeText(text); // browsers refuse it on pages of other machines without TLS
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy as curl"; }, 2000);
  } catch (error) {
    getSelection().selectAllChildren(shown);
  }
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  toAddress();
  ask();
});

// The address always contains the current view, so that it can be shared.
function toAddress(look) {
  const words = new URLSearchParams({ model: current.id });
  for (const [name] of formOf(current).fields) words.set(name, $(name).value);
  if (look) words.set("look", look);
  history.replaceState(null, "", "#" + words);
}

const linesOf = text => text.split("\n").map(line => line.trim()).filter(Boolean);

// The content of the form, as the inputs of the model.
const inputs = () => Object.fromEntries(formOf(current).fields.map(([name]) =>
  [name, ["choices", "labels"].includes(name) ? linesOf($(name).value) : $(name).value]));

const instancesOf = (kind, given) => kind.lines ? linesOf(given.text).map(text => ({ text })) : [given];

// The request for the content of the form.
const bodyOf = (model, given) => model.kind === "search" ? { query: given.query, count: MOST }
  : { ...(model.signature && { signature_name: model.signature }), instances: instancesOf(formOf(model), given) };

async function ask() {
  const kind = formOf(current), model = current, given = inputs(), number = ++asked;
  const button = $("form").querySelector("button.go");
  button.disabled = true;
  const before = performance.now();
  const found = await predict(model, bodyOf(model, given));
  if (number !== asked) return;
  button.disabled = false;
  $("answer").replaceChildren();
  for (const place of ["attribution", "attention"]) $(place).replaceChildren();
  if (found.error) {
    $("answer").append(make("p", { class: "error" }, found.error));
    return;
  }
  kind.show(found.predictions || found.results, given);
  $("answer").append(make("p", { class: "small" }, Math.round(performance.now() - before) + " ms"));
  if (!kind.looks) return;
  const text = kind.looks(given, found.predictions[0]);
  const about = signature => () => predict(model, { signature_name: signature, instances: [text] });
  if (model.signatures.includes("attribution"))
    attribution.offer($("attribution"), about("attribution"), answer => explained(model, found.predictions[0], answer));
  if (model.signatures.includes("attention")) attention.offer($("attention"), about("attention"), toAddress);
}

// The subject of attributions, in words.
function explained(model, prediction, { targets }) {
  if (model.kind === "masked_lm") return ((prediction.pieces || [])[0] || [])[0] || "the first token";
  if (model.kind === "span") return "this answer";
  return (model.kind !== "choice" && model.labels[targets]) || "this answer";
}

const highestFirst = pairs => pairs.sort((one, other) => other[1] - one[1]);

function showMasks([answer], given) {
  const masks = (answer.pieces || []).filter(pieces => pieces.some(Boolean));
  if (!masks.length) $("answer").append(make("p", {}, "There is no [MASK] in the text."));
  masks.forEach((pieces, number) => {
    $("answer").append(make("h2", {}, masks.length > 1 ? "[MASK] " + (number + 1) : "[MASK]"),
      bars(pieces.map((piece, place) => [piece, answer.scores[number][place]])));
  });
}

function showLabel([answer], given) {
  if (answer.values !== undefined || typeof answer === "number") return showNumber([answer]);
  const names = given.choices || given.labels || (current.labels.length ? current.labels : answer.probabilities.map((_, i) => String(i)));
  $("answer").append(make("h2", {}, given.choices ? "Most likely" : answer.label || "None of the labels"));
  const pairs = highestFirst(answer.probabilities.map((value, place) => [names[place], value]));
  $("answer").append(bars(pairs.slice(0, MOST)));
  if (pairs.length > MOST) $("answer").append(make("p", { class: "small" }, `and ${pairs.length - MOST} others`));
}

function showNumber([answer]) {
  const value = typeof answer === "number" ? answer : answer.values;
  $("answer").append(make("h2", {}, value.toFixed(3)));
}

// Characters as Python and the model count them: code points, not UTF-16 units.
const slice = (characters, start, end) => characters.slice(start, end).join("");

function showAnswer([answer], given) {
  const text = Array.from(given.context);
  $("answer").append(make("h2", {}, answer.answer || "No answer in the text."));
  const shown = make("p", { class: "text" });
  if (answer.answer) {
    shown.append(slice(text, 0, answer.start), make("mark", {}, slice(text, answer.start, answer.end)),
      slice(text, answer.end));
  } else shown.append(given.context);
  const others = (answer.answers || []).map((words, place) => [words || "(no answer)", answer.probabilities[place]]);
  $("answer").append(shown, bars(others.filter(([, value]) => value > 0).slice(0, 5)));
}

const hue = label => [...label].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 7);

function showEntities([answer], given) {
  const text = Array.from(given.text), shown = make("p", { class: "text" });
  let last = 0;
  (answer.texts || []).forEach((words, number) => {
    if (!words) return;
    const mark = make("mark", { title: percent(answer.scores[number]) },
      slice(text, answer.starts[number], answer.ends[number]), make("small", {}, answer.labels[number]));
    mark.style.background = "hsl(" + hue(answer.labels[number]) + " 75% 50% / .35)";
    shown.append(slice(text, last, answer.starts[number]), mark);
    last = answer.ends[number];
  });
  shown.append(slice(text, last));
  if (!last) $("answer").append(make("h2", {}, "No entities were found."));
  $("answer").append(shown);
}

function showSimilar(answers, given) {
  const vectors = answers.map(answer => (answer.vectors || answer).flat(Infinity)), lines = linesOf(given.text);
  const norm = vector => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0)) || 1;
  const cosine = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0) / norm(a) / norm(b);
  const found = vectors.slice(1).map((vector, i) => [lines[i + 1], cosine(vectors[0], vector)]);
  if (!found.length) $("answer").append(make("p", {}, "Write a second line to compare the first with."));
  $("answer").append(bars(highestFirst(found), value => value.toFixed(2)));
}

const short = text => text.length > MOST_CHARACTERS ? text.slice(0, MOST_CHARACTERS) + " ..." : text;

function showHits([hits]) {
  $("answer").append(make("ol", { class: "hits" }, ...hits.map(({ id, score, text }) => make("li", {},
    make("span", { class: "small" }, `score ${score.toFixed(3)} · id ${id}`), make("p", { class: "text" }, short(text))))));
}

start();
