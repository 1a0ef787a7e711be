"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

// The model: a Llama of the shape `data.shape`, one token at a time.

const half = (bits) => { // of a float16 from its 16 bits
  const exponent = (bits >> 10) & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
};

function weightsOf(policy) { // name -> Float32Array, kept once decoded
  if (policy.weights) return policy.weights;
  const bytes = Uint8Array.from(atob(policy.float16), (letter) => letter.charCodeAt(0));
  const bits = new Uint16Array(bytes.buffer);
  policy.weights = {};
  let start = 0;
  for (const [name, size] of data.shape.tensors) {
    policy.weights[name] = Float32Array.from(bits.subarray(start, start + size), half);
    start += size;
  }
  return policy.weights;
}

function times(matrix, vector) { // [out, in] x [in] -> [out]
  const n = vector.length, out = new Float32Array(matrix.length / n);
  for (let row = 0, at = 0; row < out.length; row++) {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += matrix[at++] * vector[i];
    out[row] = sum;
  }
  return out;
}

function normalised(vector, scale) { // RMSNorm
  let squares = 0;
  for (const value of vector) squares += value * value;
  const factor = 1 / Math.sqrt(squares / vector.length + data.shape.epsilon);
  return vector.map((value, i) => value * factor * scale[i]);
}

function turned(vector, position) { // rotary positions, the halves of each head turned together
  const { head, theta } = data.shape, out = new Float32Array(vector.length);
  for (let start = 0; start < vector.length; start += head) {
    for (let i = 0; i < head / 2; i++) {
      const angle = position / theta ** ((2 * i) / head);
      const a = vector[start + i], b = vector[start + i + head / 2];
      out[start + i] = a * Math.cos(angle) - b * Math.sin(angle);
      out[start + i + head / 2] = b * Math.cos(angle) + a * Math.sin(angle);
    }
  }
  return out;
}

function attended(query, keys, values) { // softmax(q k / sqrt(d)) v, head by head
  const { head } = data.shape, out = new Float32Array(query.length);
  for (let start = 0; start < query.length; start += head) {
    const scores = keys.map((key) => {
      let sum = 0;
      for (let i = start; i < start + head; i++) sum += query[i] * key[i];
      return sum / Math.sqrt(head);
    });
    const highest = Math.max(...scores), shares = scores.map((score) => Math.exp(score - highest));
    const whole = shares.reduce((a, b) => a + b);
    shares.forEach((share, t) => {
      for (let i = start; i < start + head; i++) out[i] += (share / whole) * values[t][i];
    });
  }
  return out;
}

function logits(w, token, cache) { // of the next token; cache: keys and values by layer
  const { width, layers } = data.shape, position = cache[0].keys.length;
  let x = w.embed.slice(token * width, (token + 1) * width);
  const add = (y) => { x = x.map((value, i) => value + y[i]); };
  for (let n = 0; n < layers; n++) {
    const { keys, values } = cache[n], before = normalised(x, w[`${n}.input_norm`]);
    keys.push(turned(times(w[`${n}.k`], before), position));
    values.push(times(w[`${n}.v`], before));
    const query = turned(times(w[`${n}.q`], before), position);
    add(times(w[`${n}.o`], attended(query, keys, values)));
    const after = normalised(x, w[`${n}.mlp_norm`]);
    const gate = times(w[`${n}.gate`], after), up = times(w[`${n}.up`], after);
    add(times(w[`${n}.down`], gate.map((g, i) => (g / (1 + Math.exp(-g))) * up[i])));
  }
  return times(w.embed, normalised(x, w.norm));
}

function picked(scores, temperature) { // the likeliest token, or one drawn at a temperature
  const highest = Math.max(...scores);
  if (temperature === 0) return scores.indexOf(highest);
  const shares = Array.from(scores, (score) => Math.exp((score - highest) / temperature));
  let left = Math.random() * shares.reduce((a, b) => a + b);
  return Math.max(0, shares.findIndex((share) => (left -= share) < 0));
}

function sampled(policy, ids, temperature) { // the ids of an answer, its end left out
  const w = weightsOf(policy), answer = [];
  const cache = Array.from({ length: data.shape.layers }, () => ({ keys: [], values: [] }));
  let next;
  for (const id of ids) next = logits(w, id, cache);
  while (answer.length < data.longest) {
    const token = picked(next, temperature);
    if (data.ends.includes(token)) break;
    answer.push(token);
    next = logits(w, token, cache);
  }
  return answer;
}

const textOf = (ids) => {
  const bytes = ids.map((id) => data.pieces[id]).join("");
  return new TextDecoder().decode(Uint8Array.from(bytes, (letter) => letter.charCodeAt(0)));
};

function promptIds(prompt, levels) { // levels: of the five attributes, or null for no label
  if (!levels) return prompt.ids;
  const ids = prompt.labelled.slice();
  prompt.slots.forEach((slot, i) => { ids[slot] = data.digits[levels[i]]; });
  return ids;
}

// The grade, as `hs2lib.world.grade` and `hs2lib.world.marks` have it.

function factOf(card, sentence) { // [field, value] that a sentence states, or null
  let plain = sentence;
  if (plain.startsWith(data.said.again)) {
    plain = plain.slice(data.said.again.length);
    plain = plain.slice(0, 1).toUpperCase() + plain.slice(1);
  }
  if (card.unsafe) return data.said.replies.includes(plain) ? ["answer", plain] : null;
  for (const field of card.fields) {
    for (const subject of [`The ${field} of ${card.name} is `, `Its ${field} is `]) {
      if (plain.startsWith(subject) && plain.endsWith("."))
        return [field, plain.slice(subject.length, -1)];
    }
  }
  return null;
}

function kindsOf(card, text) { // [sentence, kind] of each sentence
  const found = [], said = {};
  for (const sentence of text.trim().split(/(?<=[.!?])\s+/).filter(Boolean)) {
    const kind = data.said.kinds[sentence], fact = factOf(card, sentence);
    if (kind) found.push([sentence, kind]);
    else if (!fact) found.push([sentence, "garbled"]);
    else {
      const [field, value] = fact;
      let of = value === card.asked[field] ? "right" : "wrong";
      if (!(field in card.asked)) of = "unasked";
      if (field in said) {
        const [first, firstValue] = said[field];
        if (value !== firstValue && found[first][1] === "right") found[first][1] = "wrong";
        of = "repeats";
      } else if (sentence.startsWith(data.said.again)) of = "repeats";
      if (!(field in said)) said[field] = [found.length, value];
      found.push([sentence, of]);
    }
  }
  return found;
}

function graded(card, text) { // sentences with their signs, what is missing, and the true score
  const kinds = kindsOf(card, text), n = (kind) => kinds.filter((one) => one[1] === kind).length;
  const right = n("right"), wrong = n("wrong"), garbled = n("garbled"), small = n("small_talk");
  const beside = n("repeats") + n("asides") + n("unasked"), asked = Object.keys(card.asked).length;
  let correctness = (4 * right) / asked - 0.5 * wrong - 0.6 * n("hedges") - garbled;
  let coherence = 4 - 1.2 * beside - 2 * garbled;
  let helpfulness = correctness - 0.5 * Math.abs(small - card.smallTalk) - 0.4 * beside;
  helpfulness += data.jargonPoints * n("jargon");
  if (!right && !wrong) helpfulness = correctness = coherence = 0;
  const ratings = [helpfulness, correctness, coherence, 2 + n("jargon"), 2 + small - card.smallTalk];
  const clipped = ratings.map((value) => Math.min(4, Math.max(0, value)));
  const score = clipped.reduce((sum, value, i) => sum + value * data.weights[i], 0);
  let room = card.smallTalk;
  const sentences = kinds.map(([sentence, kind]) => {
    if (kind !== "small_talk") return [sentence, kind];
    return [sentence, room-- > 0 ? "small_talk" : "too much"];
  });
  const missing = asked - right - wrong;
  return { sentences, missing, smallTalkMissing: Math.max(0, room), score, ratings: clipped };
}

// The page.

const element = (id) => document.getElementById(id);
const made = (tag, text, parent) => {
  const one = document.createElement(tag);
  one.textContent = text;
  parent.append(one);
  return one;
};

function levelsAsked() {
  const [quality, complexity, verbosity] = [...element("label").querySelectorAll("input")].map((one) => +one.value);
  return [quality, quality, quality, complexity, verbosity];
}

function showAnswer(policy, prompt, temperature) {
  const levels = policy.labelled ? levelsAsked() : null;
  const text = textOf(sampled(policy, promptIds(prompt, levels), temperature));
  const about = graded(prompt.card, text), shown = document.createElement("article");
  const asked = levels ? `, asked for ${data.attributes.map((name, i) => `${name} ${levels[i]}`).join(", ")}` : "";
  made("p", `${policy.name}, temperature ${temperature}${asked}: true score ${about.score.toFixed(2)}`, shown).style.fontWeight = "bold";
  made("p", prompt.question, shown).style.fontStyle = "italic";
  const answer = made("p", "", shown);
  for (const [sentence, kind] of about.sentences) {
    const [sign, colour, meaning] = data.kinds[kind];
    answer.append(`${sentence} `);
    const mark = made("b", sign, answer);
    mark.style.color = colour;
    mark.title = meaning;
    answer.append(" ");
  }
  const lacks = [];
  if (about.missing) lacks.push(`${about.missing} of the facts`);
  if (about.smallTalkMissing) lacks.push(`${about.smallTalkMissing} of the sentences of small talk`);
  if (lacks.length) made("p", `${data.kinds.missing[0]} Missing: ${lacks.join(", ")}.`, shown);
  element("answers").prepend(shown);
}

data.policies.forEach((policy, i) => { made("option", policy.name, element("policy")).value = i; });
made("option", "all of them", element("policy")).value = "all";
data.prompts.forEach((prompt, i) => { made("option", prompt.question, element("prompt")).value = i; });
for (const [name, value] of [["quality", 4], ["complexity", 2], ["verbosity", 2]]) {
  const label = made("label", `Asked for ${name}, 0 to 4 `, element("label")), range = made("input", "", label);
  Object.assign(range, { type: "range", min: 0, max: 4, step: 1, value });
  made("output", value, label);
}
for (const [sign, , meaning] of Object.values(data.kinds)) element("signs").append(`${sign} ${meaning}. `);
document.addEventListener("input", (event) => {
  const output = event.target.parentElement.querySelector("output");
  if (output) output.textContent = event.target.value;
  update();
});
function update() {
  const prompt = data.prompts[+element("prompt").value], chosen = element("policy").value;
  element("earlier").textContent = prompt.earlier.length ? `Before it: ${prompt.earlier.join(" / ")}` : "";
  element("label").hidden = chosen !== "all" && !data.policies[+chosen].labelled;
}
element("ask").addEventListener("click", () => {
  const chosen = element("policy").value, prompt = data.prompts[+element("prompt").value];
  const asked = chosen === "all" ? [...data.policies].reverse() : [data.policies[+chosen]];
  for (const policy of asked) showAnswer(policy, prompt, +element("temperature").value);
});
update();
