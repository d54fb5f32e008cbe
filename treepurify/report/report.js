"use strict";
// What the parts of the page share: the numbers, elements, and the table that sorts.
const report = (() => {
  const data = JSON.parse(document.getElementById("payload").textContent);
  const page = document.documentElement;
  page.classList.add("scripted");

  function unpack(packed) {
    if (!packed.table) {
      const text = atob(packed.data);
      const table = new Float64Array(text.length / 2);
      for (let i = 0; i < table.length; i++) {
        const whole = text.charCodeAt(2 * i) | (text.charCodeAt(2 * i + 1) << 8);
        table[i] = ((whole << 16) >> 16) * packed.step;
      }
      packed.table = table;
    }
    return packed.table;
  }

  // Values of one curve of a term for one output; null where it is not known.
  function values(term, curve, output) {
    const packed = term.curves[curve];
    if (!packed) return null;
    const table = unpack(packed);
    const size = table.length / data.outputs.length;
    return table.subarray(output * size, (output + 1) * size);
  }

  function mass(term) {
    return unpack(term.mass);
  }

  // Writes a text that may go on in a new line after an underscore.
  function write(place, text) {
    place.replaceChildren(...text.split(/(?<=_)(?=\w)/).flatMap((part) => [part, document.createElement("wbr")]).slice(0, -1));
  }

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "text") write(made, value);
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  function drawn(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function number(value, digits = 3) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    const rounded = Number(value.toPrecision(digits));
    const text = size >= 1e7 || size < 1e-4 ? rounded.toExponential() : String(rounded);
    return text.replaceAll("-", "\u2212");
  }

  function signed(value) {
    return (value > 0 ? "+" : "") + number(value);
  }

  // A text without its middle where it is too long: names that differ tend to do so at an end.
  function shorten(text, most) {
    const tail = Math.floor(most / 2);
    return text.length <= most ? text : `${text.slice(0, most - tail - 1).trimEnd()}\u2026${text.slice(-tail).trimStart()}`;
  }

  // Dashes and gaps of a line, as long as its width asks for.
  function dashes(i, width) {
    return data.dashes[i % data.dashes.length].map((length) => length * width).join(" ");
  }

  // A short piece of a line, beside its name.
  function sample(color, i) {
    const [dash] = data.dashes[i % data.dashes.length];
    const style = !dash ? "solid" : dash < 4 ? "dotted" : "dashed";
    return element("span", { class: "sample", style: `border-color: ${color}; border-top-style: ${style}` });
  }

  const curveColor = (i) => `var(--curve-${i % 7})`;

  let counter = 0;
  function select(label, options, change) {
    const id = `choice-${counter++}`;
    const box = element("select", { id });
    options.forEach((text, i) => box.append(element("option", { value: i, text })));
    box.addEventListener("change", () => change(Number(box.value)));
    const place = element("span", { class: "control" }, element("label", { for: id, text: label }), box);
    return { place, box };
  }

  // Check boxes, or radio buttons where only one may be on.
  function switches(legend, names, on, several, change) {
    const group = element("fieldset", { class: "control" }, element("legend", { text: legend }));
    const called = `switch-${counter++}`;
    const boxes = names.map((name, i) => {
      const box = element("input", { type: several ? "checkbox" : "radio", name: called, value: i });
      box.checked = on.includes(i);
      const line = several ? [sample(curveColor(i), i)] : [];
      group.append(element("label", {}, box, ...line, document.createTextNode(name)));
      box.addEventListener("change", () => {
        change(boxes.filter((other) => other.checked).map((other) => Number(other.value)));
      });
      return box;
    });
    return group;
  }

  function reveal(id) {
    const place = document.getElementById(id);
    if (!place) return null;
    place.hidden = false;
    return {
      controls: place.querySelector(".controls"),
      canvas: place.querySelector(".canvas"),
      readout: place.querySelector(".readout"),
    };
  }

  const redraws = [];
  let waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => redraws.forEach((redraw) => redraw()), 120);
  });

  return {
    data, unpack, values, mass, write, element, drawn, number, signed, shorten, dashes, sample, curveColor,
    select, switches, reveal, redraws, openers: [],
  };
})();

// Tables that are wider than their place say so.
(() => {
  const mark = () => document.querySelectorAll(".scroll").forEach((region) => {
    region.classList.toggle("wide", region.scrollWidth > region.clientWidth + 1);
  });
  mark();
  report.redraws.push(mark);
  document.addEventListener("toggle", mark, true);
})();

// The table of effects: one table, sorted by any column, filtered by name.
(() => {
  const { element } = report;
  const section = document.getElementById("effects");
  const tables = section ? [...section.parentElement.querySelectorAll("table")] : [];
  if (!tables.length) return;
  const body = tables[0].tBodies[0];
  tables.slice(1).forEach((table) => {
    for (const row of [...table.tBodies[0].rows]) {
      row.classList.add("smaller");
      body.append(row);
    }
    table.closest("details").remove();
  });
  const region = tables[0].closest(".scroll");
  region.classList.add("tall");
  const worth = (row, column) => {
    const text = row.cells[column].textContent;
    const size = parseFloat(text.replaceAll("\u2212", "-"));
    return text === "" ? -Infinity : size;
  };
  const heads = [...tables[0].tHead.rows[0].cells];
  const isText = (column) => column === 0 || ["Output", "Cancel"].includes(heads[column].textContent);
  heads.forEach((head, column) => {
    const button = element("button", { type: "button", text: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const downward = head.getAttribute("aria-sort") === "descending";
      const ascending = head.hasAttribute("aria-sort") ? downward : isText(column);
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const rows = [...body.rows].map((row, place) => ({ row, place }));
      rows.sort((a, b) => {
        const order = isText(column)
          ? a.row.cells[column].textContent.localeCompare(b.row.cells[column].textContent)
          : worth(a.row, column) - worth(b.row, column);
        return (ascending ? order : -order) || a.place - b.place;
      });
      body.append(...rows.map(({ row }) => row));
    });
  });
  // By covariance effects rank by the size of the share, and those that cancel by their sum.
  const share = heads.findIndex((head) => head.textContent.startsWith("Share "));
  if (heads[share].textContent.startsWith("Share of the sum")) heads[share].setAttribute("aria-sort", "descending");
  const filter = element("input", { type: "search", id: "filter", autocomplete: "off" });
  const count = element("span", { class: "count", role: "status" });
  const apply = () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${body.rows.length} effects`;
  };
  filter.addEventListener("input", apply);
  const label = element("label", { for: "filter", text: "Find an effect" });
  region.before(element("p", { class: "controls" }, element("span", { class: "control" }, label, filter), count));
  apply();

  // An effect that an explorer holds opens there.
  const terms = new Map(report.data.terms.map((term) => [term.name, term]));
  const outputs = heads.findIndex((head) => head.textContent === "Output");
  for (const row of body.rows) {
    const term = terms.get(row.cells[0].textContent);
    if (!term) continue;
    const output = outputs < 0 ? 0 : report.data.outputs.indexOf(row.cells[outputs].textContent);
    const button = element("button", { type: "button", class: "link", text: term.name });
    button.addEventListener("click", () => report.openers.forEach((open) => open(term, output)));
    row.cells[0].replaceChildren(button);
  }
  document.querySelectorAll(".findings [data-term]").forEach((item) => {
    const term = terms.get(item.dataset.term);
    if (!term) return;
    const button = element("button", { type: "button", class: "link", text: `Explore ${term.name}` });
    button.addEventListener("click", () => report.openers.forEach((open) => open(term)));
    item.querySelector("p").append(" ", button);
  });
})();
