// A pair as lines: the effect of one feature at values of the other.
(() => {
  const { data, element, drawn, number, signed, ticks, slots, marks, mostTicks, depth, names, step } = report;
  const dashes = ["", "5 3", "2 2", "8 3 2 3", "1 2"];
  const mostLines = dashes.length;

  function middles(axis) {
    return Float64Array.from({ length: axis.regular }, (_, cell) => (axis.edges[cell] + axis.edges[cell + 1]) / 2);
  }

  // The value of a curve through points, at its ends beyond them.
  function between(places, values, x) {
    const upper = places.findIndex((place) => place >= x);
    if (upper <= 0) return values[upper < 0 ? places.length - 1 : 0];
    const part = (x - places[upper - 1]) / (places[upper] - places[upper - 1]);
    return (1 - part) * values[upper - 1] + part * values[upper];
  }

  // The main effect on the cells of an axis of the pair, which may be coarser than its own.
  function mainEffect(feature, axis, curve, output, smooth) {
    const found = new Float64Array(axis.cells);
    const term = data.terms.find((own) => own.features.length === 1 && own.features[0] === feature);
    const values = term && report.values(term, curve, output);
    if (!values) return found;
    const own = data.axes[term.axes[0]];
    if (smooth && axis.cuts && own.cuts) {
      const at = (x) => (term.smooth ? between(middles(own), values, x) : values[own.cuts.filter((cut) => cut <= x).length]);
      return middles(axis).map(at);
    }
    const mass = report.mass(term), held = new Float64Array(axis.cells);
    for (let cell = 0; cell < own.cells; cell++) {
      let place = cell;
      if (cell >= own.regular) place = axis.regular + cell - own.regular;
      else if (own.cells !== axis.cells) {
        place = axis.cuts.filter((cut) => cell > 0 && cut <= own.cuts[cell - 1]).length;
      }
      // A cell that no row falls into still has an effect, which counts where it stands alone.
      const weight = Math.max(mass[cell], 1e-300);
      found[place] += weight * values[cell];
      held[place] += weight;
    }
    return found.map((sum, place) => (held[place] > 0 ? sum / held[place] : 0));
  }

  // Categories of largest mass; of numbers those at the 10 %, 50 % and 90 % quantile.
  function chosen(axis, mass) {
    const cells = [...Array(axis.cells).keys()];
    if (!axis.cuts) {
      return cells.sort((a, b) => mass[b] - mass[a] || a - b).slice(0, mostLines).sort((a, b) => a - b);
    }
    const total = mass.slice(0, axis.regular).reduce((sum, part) => sum + part, 0);
    const found = [0.1, 0.5, 0.9].map((part) => {
      let upto = 0;
      const cell = cells.findIndex((own) => (upto += mass[own]) >= part * total);
      return Math.min(Math.max(cell, 0), axis.regular - 1);
    });
    return [...new Set(found)];
  }

  // The table of a pair read along one of its features: rows along it, and their mass.
  function turned(term, along, table) {
    const [first, second] = term.axes.map((i) => data.axes[i].cells);
    const n = along ? second : first, m = along ? first : second;
    return Array.from({ length: n }, (_, i) =>
      Array.from({ length: m }, (_, j) => table[along ? j * second + i : i * second + j]));
  }

  // Draws a pair along its feature 0 or 1; `tell` is called with what a cell says.
  function lines({ term, along, withMain, curve, output, width, tell }) {
    const axis = data.axes[term.axes[along]], other = data.axes[term.axes[1 - along]];
    const main = withMain ? mainEffect(axis.feature, axis, curve, output, term.smooth) : new Float64Array(axis.cells);
    const pair = turned(term, along, report.values(term, curve, output));
    const values = pair.map((row, i) => row.map((value) => value + main[i]));
    const mass = turned(term, along, report.mass(term));
    const total = mass[0].map((_, j) => mass.reduce((sum, row) => sum + row[j], 0));
    const cells = chosen(other, total);
    const named = (j) => `${data.features[other.feature]} ${other.labels[j]}`;
    const left = 56, right = 10, top = 8, down = depth(axis, width - left - right);
    const called = names(axis), bottom = 28 + 16 * called.length + down, height = 276 + bottom;
    const shown = cells.flatMap((j) => values.map((row) => row[j]));
    const margin = 0.06 * (Math.max(...shown, 0) - Math.min(...shown, 0)) || 1;
    const low = Math.min(...shown, 0) - margin, high = Math.max(...shown, 0) + margin;
    const slot = slots(axis);
    const x = (part) => left + part * (width - left - right);
    const y = (v) => top + (high - v) / (high - low) * (height - top - bottom);
    const words = cells.map(named).join("; ");
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Effect of ${data.features[axis.feature]} at ${words}` });
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
            text += `${joined ? "L" : "M"}${x((a + b) / 2)} ${y(row[j])}`;
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
      svg.append(drawn("path", { ...look, d: path(true), "stroke-width": 2.2, "stroke-dasharray": dashes[k], class: "line" }));
    });
    const cursor = drawn("line", { y1: top, y2: height - bottom, class: "zero", visibility: "hidden" });
    svg.append(cursor);
    let cell = -1;
    const read = () => {
      const middle = x((slot[cell][0] + slot[cell][1]) / 2);
      for (const name of ["x1", "x2"]) cursor.setAttribute(name, middle);
      cursor.setAttribute("visibility", "visible");
      const said = cells.map((j) => `${named(j)}: ${signed(values[cell][j])}${mass[cell][j] > 0 ? "" : " (no data)"}`);
      tell(`${data.features[axis.feature]} ${axis.labels[cell]}. ${said.join("; ")}`);
    };
    svg.addEventListener("pointermove", (event) => {
      const part = (event.offsetX - left) / (width - left - right);
      const found = slot.findIndex(([a, b]) => part >= a && part < b);
      if (found >= 0) { cell = found; read(); }
    });
    const legend = element("ul", { class: "legend" });
    cells.forEach((j, k) => legend.append(element("li", {}, element("span", { class: `sample line-${k}` }), named(j))));
    const frame = element("div", { class: "lines", tabindex: "0", role: "application", "aria-label": `Lines of ${term.name}; move with the left and right arrow keys` }, legend, svg);
    frame.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      cell = cell < 0 ? 0 : step(axis, cell, by);
      read();
    });
    tell(`Effect of ${data.features[axis.feature]}, ${withMain ? "main effect and pair together" : "the pair alone"}, at values of ${data.features[other.feature]}. Parallel lines mean no interaction; thin parts have no data.`);
    return frame;
  }

  report.lines = lines;
})();
