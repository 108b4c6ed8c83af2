// Requests to the server, with its token if it wants one, and as a command for a shell.

const KEY = "bert_tf token"; // of the tab's storage
const token = () => sessionStorage.getItem(KEY);
export const setToken = text => sessionStorage.setItem(KEY, text);
export const hasToken = () => token() !== null;

// { status, json }, or { status: 0 } if the server does not respond.
export async function request(path, options = {}) {
  const headers = hasToken() ? { authorization: "Bearer " + token() } : {};
  try {
    const response = await fetch(path, { ...options, headers });
    return { status: response.status, json: await response.json() };
  } catch (error) {
    return { status: 0, json: { error: "The server is not responding." } };
  }
}

export const verbOf = model => model.kind === "search" ? ":search" : ":predict";

const pathOf = model => "v1/models/" + encodeURIComponent(model.name) + verbOf(model);

export const predict = async (model, body) =>
  (await request(pathOf(model), { method: "POST", body: JSON.stringify(body) })).json;

const quoted = text => "'" + text.replaceAll("'", "'\\''") + "'";

// The request as a command; the token stays out of it.
export const asCurl = (model, body) => ["curl",
  ...(hasToken() ? ['-H "authorization: Bearer $BERT_TF_TOKEN"'] : []),
  "--data-binary " + quoted(JSON.stringify(body)), quoted(new URL(pathOf(model), location.href).href)].join(" ");
