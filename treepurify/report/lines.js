// A pair as lines: the effect of both features along one, at values of the other.
(() => {
  const { data, element, drawn, number, signed, dashes, sample } = report;
  const { shownAxis, inOrder, slots, middle, point, cellAt, step, mostTicks, marks, depth, names, extent, ticks } = report;

  // The main effect on the cells of an axis of a pair, which may be larger than its own.
  function mainEffect(i, curve, output) {
    const main = data.terms.find((term) => term.features.length === 1 && term.axes[0] === i);
    return report.values(main || { curves: data.axes[i].main }, curve, output);
  }

  // The table of a pair read along one of its features: rows along it, and their mass.
  function turned(term, along, table) {
    const [first, second] = term.axes.map((i) => data.axes[i].cells);
    const n = along ? second : first, m = along ? first : second;
    return Array.from({ length: n }, (_, i) =>
      Array.from({ length: m }, (_, j) => table[along ? j * second + i : i * second + j]));
  }

  // Draws a pair along its feature 0 or 1; `tell` is called with what a cell says.
  function lines({ term, along, withMains, curve, output, width, tell, all }) {
    const axis = shownAxis(term.axes[along], all), other = data.axes[term.axes[1 - along]];
    const [mine, theirs] = [along, 1 - along].map((k) =>
      (withMains && mainEffect(term.axes[k], curve, output)) || new Float64Array(data.axes[term.axes[k]].cells));
    const pair = turned(term, along, report.values(term, curve, output));
    const values = pair.map((row, i) => row.map((value, j) => value + mine[i] + theirs[j]));
    const mass = turned(term, along, report.mass(term));
    const { cells, names: words } = other.lines;
    const named = cells.map((j, k) => `${data.features[other.feature]} ${words ? words[k] : other.labels[j]}`);
    const left = 56, right = 10, top = 8, down = depth(axis, width - left - right);
    const called = names(axis, mostTicks(axis, width - left - right)), bottom = 28 + 16 * called.length + down, height = 276 + bottom;
    const slot = slots(axis, { output, width: width - left - right }), drawnCells = inOrder(slot);
    const [low, high] = extent(cells.flatMap((j) => drawnCells.map((i) => values[i][j])));
    const x = (part) => left + part * (width - left - right);
    const y = (v) => top + (high - v) / (high - low) * (height - top - bottom);
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Effect of ${data.features[axis.feature]} at ${named.join("; ")}` });
    ticks(low, high, 5).forEach((v) => {
      svg.append(drawn("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: v === 0 ? "zero" : "rule" }));
      svg.append(drawn("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, number(v)));
    });
    marks(axis, slot, mostTicks(axis, width - left - right), (part, text) => {
      const at = Math.max(left, Math.min(x(part), width - (down ? 16 : 4 * text.length))), y = height - bottom + 20;
      const turn = down ? { "text-anchor": "end", transform: `rotate(-45 ${at} ${y})` } : { "text-anchor": "middle" };
      svg.append(drawn("text", { x: at, y: down ? y - 6 : y, ...turn }, text));
    });
    called.forEach((text, i) => {
      svg.append(drawn("text", { x: (left + width - right) / 2, y: height - 6 - 16 * (called.length - 1 - i), "text-anchor": "middle", class: "name" }, text));
    });
    cells.forEach((j, k) => {
      const path = (held) => {
        let text = "", joined = false;
        values.forEach((row, i) => {
          const [a, b] = slot[i];
          if (!(b > a)) return;
          if (held && !(mass[i][j] > 0)) { joined = false; return; }
          if (term.smooth && axis.cuts) {
            text += `${joined ? "L" : "M"}${x(point(axis, slot, i))} ${y(row[j])}`;
            joined = true;
            return;
          }
          // Categories and special cells stand for themselves.
          text += `${joined && axis.cuts && i < axis.regular ? "V" : `M${x(a)} `}${y(row[j])}H${x(b)}`;
          joined = true;
        });
        return text;
      };
      const look = { fill: "none", stroke: `var(--many-${k})` };
      svg.append(drawn("path", { ...look, d: path(false), "stroke-width": 0.7, class: "thin" }));
      svg.append(drawn("path", { ...look, d: path(true), "stroke-width": 2.2, "stroke-dasharray": dashes(k, 2.2), class: "line" }));
    });
    const cursor = drawn("line", { y1: top, y2: height - bottom, class: "zero", visibility: "hidden" });
    svg.append(cursor);
    let cell = -1;
    const read = () => {
      for (const name of ["x1", "x2"]) cursor.setAttribute(name, x(middle(slot, cell)));
      cursor.setAttribute("visibility", "visible");
      const said = cells.map((j, k) => `${named[k]}: ${signed(values[cell][j])}${mass[cell][j] > 0 ? "" : " (no data)"}`);
      tell(`${data.features[axis.feature]} ${axis.labels[cell]}. ${said.join("; ")}`);
    };
    svg.addEventListener("pointermove", (event) => {
      const part = (event.offsetX - left) / (width - left - right);
      const below = cellAt(slot, part);
      if (below >= 0) { cell = below; read(); }
    });
    const legend = element("ul", { class: "legend" });
    named.forEach((name, k) => legend.append(element("li", {}, sample(`var(--many-${k})`, k), name)));
    const frame = element("div", { class: "lines", tabindex: "0", role: "application", "aria-label": `Lines of ${term.name}; move with the left and right arrow keys` }, legend, svg);
    frame.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      cell = step(slot, cell, cell < 0 ? 1 : by);
      read();
    });
    tell(`Effect of ${data.features[axis.feature]}, ${withMains ? "main effects and pair together" : "the pair alone"}, at values of ${data.features[other.feature]}. Parallel lines mean no interaction; lines are thin where there are no data.`);
    return frame;
  }

  report.lines = lines;
})();
