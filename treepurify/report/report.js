"use strict";
// What a page can do: sort and search tables, read cells of figures, switch versions of a figure,
// and add effects up for values that a reader chooses. The page is complete without it.

// Plain functions first: they know no page.
const logic = {
  number(value, digits = 3) {
    if (value === 0) return "0";
    const size = Math.abs(value), rounded = Number(value.toPrecision(digits));
    const text = size >= 1e7 || size < 1e-4 ? rounded.toExponential() : String(rounded);
    return text.replaceAll("-", "\u2212");
  },

  signed(value) {
    return (value > 0 ? "+" : "") + logic.number(value);
  },

  share(value) {
    return `${logic.number(100 * value)}%`;
  },

  // The cell whose ends, which may run downwards, hold a place; -1 where none does.
  cellAt(ends, place) {
    return ends.findIndex(([a, b]) => place >= Math.min(a, b) && place <= Math.max(a, b));
  },

  // What a cell of a figure says: its place, its share of the data, and each version.
  said(figure, cell) {
    const at = cell.reduce((sum, i, k) => sum * figure.along[k].ends.length + i, 0);
    const where = cell.map((i, k) => `${figure.names[k]} ${figure.along[k].labels[i]}`).join(", ");
    const held = figure.mass[at] > 0 ? `${logic.share(figure.mass[at])} of the data` : "no data";
    const versions = Object.entries(figure.versions).map(([name, values]) => `${name} ${logic.signed(values[at])}`);
    return `${where} (${held}): ${versions.join("; ")}`;
  },

  // What each effect adds in the chosen cells; exactly, for an example.
  added(data, cells, output, example) {
    return data.terms.map((term, t) => {
      if (example) return example.effects[t][output];
      const at = term.features.reduce((sum, j, k) => sum * term.sizes[k] + term.maps[k][cells[j]], 0);
      return term.values[output][at];
    });
  },

  // The parts of a prediction, the largest first, of many only the first ones.
  parts(data, cells, output, example, most = 12) {
    const named = (term) => term.features.length > 1 ? term.name : `${term.name} = ${logic.valueOf(data, cells, term.features[0], example)}`;
    const values = logic.added(data, cells, output, example);
    let parts = data.terms.map((term, t) => ({ name: named(term), value: values[t] }));
    if (example) {
      if (example.left_out.some((value) => value !== 0)) parts.push({ name: "effects not on this page", value: example.left_out[output] });
      if (example.remainder) parts.push({ name: "remainder", value: example.remainder[output] });
    }
    parts.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const rest = parts.slice(most);
    if (rest.length > 1) {
      parts = parts.slice(0, most);
      parts.push({ name: `${rest.length} more`, value: rest.reduce((sum, part) => sum + part.value, 0) });
    }
    return parts;
  },

  valueOf(data, cells, feature, example) {
    return example ? example.words[feature] : data.features[feature].labels[cells[feature]];
  },

  // Round numbers between two ends, about as many as asked for.
  ticks(low, high, most) {
    const rough = (high - low) / most || 1, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * size).find((one) => one >= rough);
    const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
    return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  },

  // What a cell of a table sorts by: a number, or text in lower case.
  key(text) {
    const number = parseFloat(text.replaceAll("\u2212", "-"));
    return Number.isNaN(number) ? text.trim().toLowerCase() : number;
  },

  inOrder(a, b) {
    if (typeof a === typeof b) return a < b ? -1 : Number(a > b);
    return typeof a === "number" ? -1 : 1;
  },
};

if (typeof document === "undefined") {
  module.exports = logic;
} else {
  const data = JSON.parse(document.getElementById("data").textContent);
  document.documentElement.classList.add("scripted");

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  const drawn = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };

  const control = (label, box) => element("label", { class: "control" }, label, box);

  const choice = (label, options, change) => {
    const box = element("select");
    options.forEach((text, i) => box.append(element("option", { value: i }, text)));
    box.addEventListener("change", () => change(Number(box.value)));
    return { box, place: control(label, box) };
  };

  // Tables: the rows that were folded away join the others, in a box that scrolls.
  document.querySelectorAll(".table").forEach((place) => {
    const table = place.querySelector("table"), body = table.tBodies[0];
    const more = place.querySelector("details.more");
    if (more) {
      body.append(...more.querySelectorAll("tbody tr"));
      more.remove();
      table.parentElement.classList.add("tall");
      const find = element("input", { type: "search" });
      find.addEventListener("input", () => {
        const wanted = find.value.trim().toLowerCase();
        for (const row of body.rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      });
      place.prepend(control("Find a row", find));
    }
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = element("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const rows = [...body.rows].map((row) => ({ row, key: logic.key(row.cells[column].textContent) }));
        const before = head.getAttribute("aria-sort");
        const isUp = before ? before === "descending" : rows.some(({ key }) => typeof key === "string" && key);
        table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
        rows.sort((a, b) => (isUp ? 1 : -1) * logic.inOrder(a.key, b.key));
        body.append(...rows.map(({ row }) => row));
      });
    });
  });

  // Figures: a reader points at a cell, or moves with the arrow keys, and reads it below.
  document.querySelectorAll("figure").forEach((place) => {
    const figure = data.figures[Number(place.dataset.figure)];
    const versions = [...place.querySelectorAll(".version")], readout = place.querySelector(".readout");
    if (versions.length > 1) {
      const show = (i) => versions.forEach((version, k) => { version.hidden = k !== i; });
      place.prepend(choice("Show", versions.map((version) => version.dataset.version), show).place);
    }
    if (!figure) return;
    const [left, top, right, bottom] = figure.box, cell = figure.along.map(() => 0);
    const tell = () => { readout.textContent = logic.said(figure, cell); };
    versions.forEach((version) => {
      const svg = version.querySelector("svg");
      svg.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect();
        const part = [
          ((event.clientX - box.left) / box.width - left) / (right - left),
          1 - ((event.clientY - box.top) / box.height - top) / (bottom - top),
        ];
        if (part.some((one) => one < 0 || one > 1)) return;
        const found = figure.along.map(({ ends }, k) => logic.cellAt(ends, part[k]));
        if (found.includes(-1)) return;
        found.forEach((i, k) => { cell[k] = i; });
        tell();
      });
      svg.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] }[event.key];
        if (!move || move[0] >= cell.length) return;
        event.preventDefault();
        const last = figure.along[move[0]].ends.length - 1;
        cell[move[0]] = Math.max(0, Math.min(last, cell[move[0]] + move[1]));
        tell();
      });
    });
  });

  // One prediction.
  const place = document.getElementById("prediction");
  if (place) {
    const state = { output: 0, example: null, cells: data.features.map(({ start }) => start) };
    const boxes = data.features.map((feature, j) => choice(feature.name, feature.labels, (cell) => {
      state.cells[j] = cell;
      state.example = null;
      draw();
    }));
    const controls = element("div", { class: "controls" });
    const rows = ["as chosen", ...data.examples.map((_, i) => `example ${i + 1}`)];
    const take = (i) => {
      state.example = i ? data.examples[i - 1] : null;
      if (i) state.cells = [...state.example.cells];
      draw();
    };
    const row = choice("Row", rows, take);
    if (data.examples.length) controls.append(row.place);
    if (data.outputs.length > 1) {
      controls.append(choice("Output", data.outputs, (i) => { state.output = i; draw(); }).place);
    }
    const values = element("details", { open: "" }, element("summary", {}, "Values"), element("div", { class: "fields" }, ...boxes.map((box) => box.place)));
    const canvas = element("div"), readout = element("p", { class: "readout", "aria-live": "polite" });
    place.replaceChildren(controls, values, canvas, readout);
    take(data.examples.length ? 1 : 0);

    function draw() {
      boxes.forEach(({ box }, j) => { box.value = state.cells[j]; });
      row.box.value = state.example ? data.examples.indexOf(state.example) + 1 : 0;
      const parts = logic.parts(data, state.cells, state.output, state.example);
      const first = data.intercept[state.output];
      const end = parts.reduce((sum, part) => sum + part.value, first);
      const isPrediction = data.is_whole || (state.example && state.example.prediction);
      const name = isPrediction ? "prediction" : "sum of these effects";
      canvas.replaceChildren(waterfall(parts, first, end, name));
      readout.textContent = `${data.margin[state.output]}: mean ${logic.number(first, 4)}, ${name} ${logic.number(end, 4)}.`;
    }

    function waterfall(parts, first, end, name) {
      const width = Math.max(Math.min(canvas.clientWidth || 680, 860), 280);
      const line = 24, left = Math.min(300, width * 0.44), right = 60, foot = line * (parts.length + 2) + 4;
      const svg = drawn("svg", { width, height: foot + 40, viewBox: `0 0 ${width} ${foot + 40}`, role: "img" });
      svg.setAttribute("aria-label", parts.map((part) => `${part.name} ${logic.signed(part.value)}`).join(", "));
      const ends = [];
      parts.reduceRight((sum, part, i) => { ends[i] = [sum, sum + part.value]; return sum + part.value; }, first);
      const all = [...ends.flat(), first], low = Math.min(...all), high = Math.max(...all);
      const x = (value) => left + (value - low) / (high - low || 1) * (width - left - right);
      const write = (text, at, y, more = {}) => svg.append(drawn("text", { x: at, y, ...more }, text));
      for (const tick of logic.ticks(low, high, 4)) {
        svg.append(drawn("line", { x1: x(tick), x2: x(tick), y1: 0, y2: foot, class: "rule" }));
        write(logic.number(tick, 4), x(tick), foot + 16, { "text-anchor": "middle", class: "name" });
      }
      write(data.margin[state.output], width, foot + 34, { "text-anchor": "end", class: "name" });
      const rows = [{ name, at: end }, ...parts, { name: "mean", at: first }];
      rows.forEach((part, i) => {
        const middle = line * (i + 0.5) + 4, most = Math.floor((left - 8) / 7);
        const label = part.name.length > most ? `${part.name.slice(0, most - 1)}\u2026` : part.name;
        write(label, left - 8, middle + 4, { "text-anchor": "end" });
        if (part.at !== undefined) {
          svg.append(drawn("circle", { cx: x(part.at), cy: middle, r: 4, class: "mean" }));
          write(logic.number(part.at, 4), x(part.at) + 9, middle + 4);
          return;
        }
        const [from, to] = ends[i - 1].map(x);
        svg.append(drawn("line", { x1: from, x2: from, y1: middle, y2: middle + line, class: "rule" }));
        svg.append(drawn("rect", { x: Math.min(from, to), width: Math.max(Math.abs(to - from), 1), y: middle - 8, height: 16, class: part.value >= 0 ? "up" : "down" }));
        write(logic.signed(part.value), Math.max(from, to) + 5, middle + 4);
      });
      return svg;
    }
  }
}
