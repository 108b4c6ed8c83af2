// The routes of the server from its OpenAPI description: inputs and outputs, and a form to send a request.
import { make } from "./elements.js";
import { askForToken, commandOf, request, send } from "./requests.js";

const about = document.getElementById("about"), routes = document.getElementById("routes");

async function start() {
  const { status, json } = await request("openapi.json");
  if (status === 401) return askForToken(about, start);
  if (status !== 200) return about.replaceChildren(make("p", { class: "error" }, json.error));
  const groups = new Map();
  for (const [path, operations] of Object.entries(json.paths))
    for (const [method, operation] of Object.entries(operations)) {
      const group = operation.tags[0];
      groups.set(group, [...(groups.get(group) || []), route(path, method.toUpperCase(), operation)]);
    }
  const models = [...groups].filter(([name]) => name !== "Server");
  for (const [name, inside] of [...models, ...[...groups].filter(([name]) => name === "Server")])
    routes.append(make("h2", {}, name), ...inside.reverse()); // predictions before states
}

// A folded panel of a route.
function route(path, method, operation) {
  const box = make("details", { class: "route" }, make("summary", {}, make("code", {}, `${method} ${path}`),
    " ", make("span", { class: "small" }, operation.summary)));
  for (const { name, description, schema } of operation.parameters || [])
    box.append(make("h3", {}, `?${name}=${schema.enum.join(" or ")}`), make("p", { class: "hint" }, description));
  const taken = operation.requestBody && operation.requestBody.content["application/json"];
  if (taken) box.append(make("h3", {}, "Takes"), make("pre", {}, sketch(taken.schema)));
  const given = operation.responses["200"].content;
  if (given) box.append(make("h3", {}, "Answers"), make("pre", {}, sketch(given["application/json"].schema)));
  box.append(make("h3", {}, "Codes"), make("p", { class: "hint" },
    Object.entries(operation.responses).map(([code, { description }]) => `${code} ${description}`).join(" ")));
  box.append(sender(path, method, operation, taken));
  return box;
}

// A form that sends the request, with the command that does the same.
function sender(path, method, operation, taken) {
  const form = make("form"), shown = make("div", { role: "status" }), given = () => path.slice(1)
    + fields.map(({ name, select }) => select.value === "0" ? "" : `?${name}=${select.value}`).join("");
  const fields = (operation.parameters || []).map(({ name, schema }) => {
    const select = make("select", {}, ...schema.enum.map(value => make("option", {}, String(value))));
    form.append(make("label", {}, name + " ", select));
    return { name, select };
  });
  const body = taken && make("textarea", { rows: "4", "aria-label": "Body of the request", spellcheck: "false" });
  if (body) {
    body.value = JSON.stringify(taken.example || {}, null, 2);
    form.append(make("label", {}, "Body"), body);
  }
  form.append(make("button", { class: "go" }, "Send"));
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const { status, text } = await send(given(), body ? { method, body: body.value } : {});
    shown.replaceChildren(make("h3", {}, "Response " + status), make("pre", { tabindex: "0" }, pretty(text)),
      make("h3", {}, "As a command"), make("pre", { tabindex: "0" }, commandOf(given(), body && body.value)));
  });
  return make("div", {}, form, shown);
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch (error) {
    return text;
  }
}

// A schema in a few words: {"instances": [string, ...]}.
function sketch(schema, properties = {}) {
  const all = { ...properties, ...schema.properties };
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return [...new Set(choices.map(each => sketch(each, all)))].join("\n");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.items) return `[${sketch(schema.items)}, ...]`;
  const pairs = Object.entries(all).filter(([, each]) => !("default" in each)).map(([name, each]) => `"${name}": ${sketch(each)}`);
  if (pairs.length) return `{${pairs.join(", ")}}`;
  return schema.type ? [schema.type].flat().filter(kind => kind !== "null").join(" or ") : "anything";
}

start();
