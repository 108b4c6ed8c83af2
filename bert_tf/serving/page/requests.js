// Requests to the server, with its token if it wants one, and as a command for a shell.
import { make } from "./elements.js";

const KEY = "bert_tf token"; // of the tab's storage
const token = () => sessionStorage.getItem(KEY);
export const hasToken = () => token() !== null;

// { status, text }, or { status: 0 } if the server does not respond.
export async function send(path, options = {}) {
  const headers = hasToken() ? { authorization: "Bearer " + token() } : {};
  try {
    const response = await fetch(path, { ...options, headers });
    return { status: response.status, text: await response.text() };
  } catch (error) {
    return { status: 0, text: JSON.stringify({ error: "The server is not responding." }) };
  }
}

// The same for JSON: { status, json }.
export async function request(path, options = {}) {
  const { status, text } = await send(path, options);
  try {
    return { status, json: JSON.parse(text) };
  } catch (error) {
    return { status: 0, json: { error: "The server is not responding." } };
  }
}

// A form for the token in `place`, which then calls `onward`.
export function askForToken(place, onward) {
  const field = make("input", { type: "password", id: "token", required: "", autocomplete: "off" });
  const form = make("form", {}, make("label", { for: "token" }, "Token of this server"), field,
    make("button", { class: "go" }, "Continue"));
  form.addEventListener("submit", event => {
    event.preventDefault();
    sessionStorage.setItem(KEY, field.value.trim());
    place.replaceChildren();
    onward();
  });
  const isWrong = hasToken();
  place.replaceChildren(form);
  if (isWrong) form.append(make("p", { class: "error" }, "This token is wrong."));
  field.focus();
}

export const verbOf = model => model.kind === "search" ? ":search" : ":predict";

const pathOf = model => "v1/models/" + encodeURIComponent(model.name) + verbOf(model);

export const predict = async (model, body) =>
  (await request(pathOf(model), { method: "POST", body: JSON.stringify(body) })).json;

const quoted = text => "'" + text.replaceAll("'", "'\\''") + "'";

// A request as a command, without the token.
export const commandOf = (path, body) => ["curl",
  ...(hasToken() ? ['-H "authorization: Bearer $BERT_TF_TOKEN"'] : []),
  ...(body === undefined ? [] : ["--data-binary " + quoted(body)]), quoted(new URL(path, location.href).href)].join(" ");

export const asCurl = (model, body) => commandOf(pathOf(model), JSON.stringify(body));
