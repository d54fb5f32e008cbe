// One prediction: values chosen by the reader, and what each effect adds.
(() => {
  const { data, element, drawn, number, signed, shorten } = report;
  const mains = data.terms.filter((term) => term.features.length === 1);
  const place = data.terms.length ? report.reveal("prediction-explorer") : null;
  if (!place) return;
  // The table of a term before its cells were merged, where the page has it.
  const finest = (term) => term.whole || term;
  const axisOf = new Map();
  data.terms.forEach((term) => finest(term).axes.forEach((i) => {
    const axis = data.axes[i];
    if (!axisOf.has(axis.feature) || term.features.length === 1) axisOf.set(axis.feature, axis);
  }));
  const state = { output: data.output, shapley: false, example: -1, values: new Map() };
  const { start, examples } = data;
  const isWhole = !data.remainder && data.missing === 0;

  // The value that stands for a cell: its middle, its code, or null for missing values.
  function valueOf(axis, cell) {
    if (axis.values) return axis.values[cell];
    if (axis.labels[cell] === "missing" && cell >= axis.regular) return null;
    if (axis.codes) return axis.codes.indexOf(cell);
    if (cell >= axis.regular) return axis.regular;
    if (!axis.cuts) return cell;
    const middle = (axis.edges[cell] + axis.edges[cell + 1]) / 2;
    return cellOf(axis, middle) === cell ? middle : axis.cuts[cell - 1];
  }

  function cellOf(axis, value) {
    if (axis.values) return axis.values.indexOf(value);
    if (value === null) return axis.labels[axis.cells - 1] === "missing" ? axis.cells - 1 : -1;
    if (axis.codes) return axis.codes[value];
    if (axis.cuts) return axis.cuts.filter((cut) => cut <= value).length;
    return value < axis.cells ? value : -1;
  }

  for (const [feature, axis] of axisOf) {
    const term = mains.find(({ features }) => features[0] === feature);
    let cell = 0;
    if (term) {
      const mass = report.mass(term);
      mass.forEach((part, i) => { if (part > mass[cell]) cell = i; });
    }
    state.values.set(feature, start.row ? start.row[feature] : valueOf(axis, cell));
  }
  if (start.example >= 0) take(start.example);

  function take(example) {
    state.example = example;
    data.rows[example].forEach((value, feature) => { if (axisOf.has(feature)) state.values.set(feature, value); });
  }

  const boxes = new Map();
  const fields = element("div", { class: "fields" });
  [...axisOf.keys()].sort((a, b) => a - b).forEach((feature) => {
    const axis = axisOf.get(feature);
    const id = `value-${feature}`;
    const box = element("select", { id });
    axis.labels.forEach((text, cell) => box.append(element("option", { value: cell, text })));
    box.addEventListener("change", () => {
      state.values.set(feature, valueOf(axis, Number(box.value)));
      state.example = -1;
      draw();
    });
    boxes.set(feature, box);
    fields.append(element("span", { class: "control" }, element("label", { for: id, text: data.features[feature] }), box));
  });
  let chosen = null;
  if (data.rows.length) {
    const names = ["as chosen", ...data.rows.map((_, i) => `example ${i + 1}`)];
    chosen = report.select("Row", names, (i) => {
      state.example = -1;
      if (i > 0) take(i - 1);
      draw();
    });
    place.controls.append(chosen.place);
  }
  if (data.outputs.length > 1) {
    const choice = report.select("Output", data.outputs, (i) => { state.output = i; draw(); });
    choice.box.value = state.output;
    place.controls.append(choice.place);
  }
  place.controls.append(
    report.switches("Parts", ["effects", "features (Shapley values)"], [0], false,
      (on) => { state.shapley = on[0] === 1; draw(); }),
  );
  const details = element("details", { open: "" }, element("summary", { text: "Values" }), fields);
  place.canvas.before(details);
  report.redraws.push(draw);

  // What a term adds to an example, where its table says it only nearly.
  function exact(i) {
    const packed = state.example < 0 ? null : examples.exact[i];
    return packed ? report.unpack(packed)[state.output * data.rows.length + state.example] : null;
  }

  const alone = (term) => (term.features.length === 1 ? term.features[0] : undefined);

  function added() {
    let unknown = 0;
    const parts = data.terms.map((term, i) => {
      let at = 0;
      for (const i of finest(term).axes) {
        const axis = data.axes[i], cell = cellOf(axis, state.values.get(axis.feature));
        if (cell < 0) at = NaN;
        at = at * axis.cells + cell;
      }
      const known = exact(i);
      if (known !== null) return { name: term.name, features: term.features, feature: alone(term), value: known };
      if (Number.isNaN(at)) unknown += 1;
      const value = Number.isNaN(at) ? 0 : report.values(finest(term), 0, state.output)[at];
      return { name: term.name, features: term.features, feature: alone(term), value };
    });
    return { parts, unknown };
  }

  // What no table on the page says, and is known of the examples only.
  function beyond() {
    if (state.example < 0) return [];
    const more = [];
    const add = (name, table) => { if (table) more.push({ name, value: table[state.example][state.output] }); };
    add("remainder", examples.remainder);
    if (data.missing) add(`${data.missing} effects not on this page`, examples.missing);
    return more;
  }

  function draw() {
    for (const [feature, box] of boxes) {
      box.value = cellOf(axisOf.get(feature), state.values.get(feature));
    }
    if (chosen) chosen.box.value = state.example + 1;
    const { parts, unknown } = added(), more = beyond();
    let shown = parts;
    if (state.shapley) {
      const total = new Map([...axisOf.keys()].map((feature) => [feature, 0]));
      parts.forEach(({ features, value }) => features.forEach((j) => total.set(j, total.get(j) + value / features.length)));
      shown = [...total].map(([feature, value]) => ({ name: data.features[feature], feature, value }));
    }
    const bySize = (a, b) => Math.abs(b.value) - Math.abs(a.value);
    shown = [...shown].sort(bySize);
    const most = 12, rest = shown.slice(most);
    if (rest.length > 1) {
      const value = rest.reduce((sum, part) => sum + part.value, 0);
      shown = [...shown.slice(0, most), { name: `${rest.length} more`, value }];
    }
    shown = [...more.sort(bySize), ...shown];
    const first = data.intercept[state.output];
    const end = first + [...parts, ...more].reduce((sum, part) => sum + part.value, 0);
    place.canvas.replaceChildren(waterfall(shown, first, end));
    report.write(place.readout, said(first, end) + (unknown ? ` ${unknown} effects are not defined for these values and count as 0.` : ""));
  }

  function said(first, end) {
    const mean = `${data.margin[state.output]}: mean ${number(first, 4)}`;
    const isKnown = state.example >= 0 && examples.prediction;
    if (isKnown) return `${mean}, this row ${number(examples.prediction[state.example][state.output], 4)}.`;
    if (isWhole) return `${mean}, this row ${number(end, 4)}.`;
    const without = [];
    if (data.remainder) without.push("the remainder, which needs the model itself");
    if (data.missing && state.example < 0) without.push(`${data.missing} effects not on this page`);
    return `${mean}, with the shown effects ${number(end, 4)}. This is not the prediction, since it leaves out ${without.join(" and ")}.`;
  }

  // A feature with its value: that of an example, or the cell that was chosen.
  function withValue(name, feature) {
    const axis = axisOf.get(feature), value = state.values.get(feature), cell = cellOf(axis, value);
    if (cell < 0) return name;
    const isKnown = state.example >= 0 && axis.cuts && !axis.labelled && value !== null && cell < axis.regular;
    return `${name} = ${isKnown ? number(value, 5) : axis.labels[cell]}`;
  }

  function waterfall(shown, start, end) {
    const width = Math.max(Math.min(place.canvas.clientWidth || 680, 860), 280);
    const line = 24, left = Math.min(320, width * 0.44), right = 56, top = 4, below = 46;
    const foot = top + line * (shown.length + 2), height = foot + below;
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    svg.setAttribute("aria-label", `From the mean ${number(start, 4)} to ${number(end, 4)}: ${shown.map((part) => `${part.name} ${signed(part.value)}`).join(", ")}`);
    const ends = [];
    shown.reduceRight((sum, part, i) => { ends[i] = [sum, sum + part.value]; return sum + part.value; }, start);
    const all = ends.flat().concat(start), low = Math.min(...all), high = Math.max(...all);
    const x = (v) => left + (v - low) / (high - low || 1) * (width - left - right);
    const write = (text, at, y, more) => svg.append(drawn("text", { x: at, y, ...more }, text));
    const most = Math.max(Math.floor((width - left - right) / 80), 2);
    for (const tick of report.ticks(low, high, most)) {
      svg.append(drawn("line", { x1: x(tick), x2: x(tick), y1: top, y2: foot, class: "rule" }));
      write(number(tick, 6), x(tick), foot + 16, { "text-anchor": "middle", class: "name" });
    }
    write(data.margin[state.output], width - 2, foot + 36, { "text-anchor": "end" });
    const rows = [{ name: isWhole || state.example >= 0 ? "prediction" : "sum of these effects", at: end }, ...shown, { name: "mean", at: start }];
    rows.forEach((part, row) => {
      const middle = top + line * (row + 0.5);
      const isEnd = part.at !== undefined;
      const name = part.feature === undefined ? part.name : withValue(part.name, part.feature);
      write(shorten(name, Math.floor((left - 8) / 7.6)), left - 8, middle + 4, { "text-anchor": "end", ...(isEnd ? { class: "name" } : {}) });
      if (isEnd) {
        svg.append(drawn("circle", { cx: x(part.at), cy: middle, r: 4, class: "mass" }));
        write(number(part.at, 4), x(part.at) + 9, middle + 4);
        return;
      }
      const [from, to] = ends[row - 1];
      svg.append(drawn("line", { x1: x(from), x2: x(from), y1: middle, y2: middle + line, class: "joint" }));
      svg.append(drawn("rect", { x: Math.min(x(from), x(to)), width: Math.max(Math.abs(x(to) - x(from)), 1), y: middle - 8, height: 16, class: part.value >= 0 ? "up" : "down" }));
      write(signed(part.value), Math.max(x(from), x(to)) + 5, middle + 4);
    });
    return svg;
  }

  draw();
})();
