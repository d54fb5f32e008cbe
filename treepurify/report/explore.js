// The explorers: one main effect in several versions, one pair cell by cell.
(() => {
  const { data, element, drawn, number, signed, shorten, dashes, curveColor } = report;
  const { shownAxis, leavesOut, rangeSwitch, inOrder, slots, middle, point, cellAt, step, mostTicks, marks, depth, names, extent, ticks } = report;
  const share = (part) => `${(100 * part).toFixed(part < 0.01 ? 2 : 1)}%`;
  const several = data.outputs.length > 1;
  const here = (output) => (several ? ` on ${data.outputs[output]}` : "");

  // Effects of so many features, the largest first.
  function effectsOf(size) {
    return data.order.map((i) => data.terms[i]).filter((term) => term.features.length === size);
  }

  // Choices of an effect and of an output, which follow each other: until the reader chooses an
  // output, each effect opens on the one where it is largest. Names carry the share on the output.
  function choices(label, terms, state, draw) {
    const called = (term) => {
      const part = term.shares[state.output];
      return part === null ? term.name : `${term.name} (${share(part)})`;
    };
    const open = (i, output) => {
      state.term = i;
      if (output !== undefined) state.output = output;
      else if (!state.isChosen) state.output = terms[i].output;
      draw();
    };
    state.output = terms[0].output;
    const effect = report.select(label, terms.map(called), (i) => open(i));
    const output = report.select("Output", data.outputs, (k) => { state.isChosen = true; open(state.term, k); });
    const follow = () => {
      effect.box.value = state.term;
      output.box.value = state.output;
      if (several) terms.forEach((term, i) => { effect.box.options[i].textContent = called(term); });
    };
    report.openers.push((term, onOutput) => {
      const i = terms.indexOf(term);
      if (i < 0) return;
      open(i, onOutput);
      effect.place.scrollIntoView({ behavior: "smooth", block: "start" });
      effect.box.focus({ preventScroll: true });
    });
    return { places: [effect.place, ...(several ? [output.place] : [])], follow };
  }

  function present(terms, curve) {
    return terms.some((term) => term.curves[curve]);
  }

  (function mains() {
    const terms = effectsOf(1);
    const place = terms.length ? report.reveal("main-explorer") : null;
    if (!place) return;
    const known = data.curves.map((_, i) => i).filter((i) => present(terms, i));
    const state = { term: 0, output: 0, curves: known.slice(0, 2), all: false };
    const chosen = choices("Effect", terms, state, draw);
    place.controls.append(
      ...chosen.places,
      report.switches("Versions", known.map((i) => data.curves[i]), known.map((_, i) => i).slice(0, 2), true,
        (on) => { state.curves = on.map((i) => known[i]); draw(); }),
      ...(leavesOut(terms) ? [rangeSwitch((all) => { state.all = all; draw(); })] : []),
    );
    report.redraws.push(draw);

    function draw() {
      chosen.follow();
      const term = terms[state.term];
      const axis = shownAxis(term.axes[0], state.all);
      const curves = state.curves
        .map((i) => ({ i, values: report.values(term, i, state.output) }))
        .filter((curve) => curve.values);
      const width = Math.max(Math.min(place.canvas.clientWidth, 760), 280);
      const picture = axis.cuts ? steps(term, axis, curves, width) : bars(term, axis, curves, width);
      picture.setAttribute("role", "img");
      const [low, high] = curves.length ? term.curves[curves[0].i].ends[state.output] : [0, 0];
      const range = `${data.label[state.output]} from ${number(low)} to ${number(high)}`;
      const words = low === 0 && high === 0 ? `no effect${here(state.output)}` : range;
      picture.setAttribute("aria-label", `${term.name}, ${words}`);
      place.canvas.replaceChildren(picture);
      const drawnAt = term.smooth && axis.cuts ? `, a curve through the middles of ${axis.regular} cells` : "";
      report.write(place.readout, `${term.name}: ${words}${drawnAt}`);
    }

    // The range of the cells that have a place.
    const rangeOf = (slot, curves) => extent(curves.flatMap(({ values }) => inOrder(slot).map((cell) => values[cell])));

    function steps(term, axis, curves, width) {
      const called = names(axis), below = 26 + 16 * called.length;
      const left = 52, right = 8, top = 8, strip = 26, bottom = strip + below + 2, height = 228 + bottom;
      const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
      const inner = width - left - right, slot = slots(axis, { width: inner });
      const room = slot[axis.regular - 1][1] * inner;
      const x = (part) => left + part * inner;
      const [low, high] = rangeOf(slot, curves);
      const y = (v) => top + (high - v) / (high - low) * (height - top - bottom);
      ticks(low, high, 5).forEach((v) => {
        svg.append(drawn("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: v === 0 ? "zero" : "rule" }));
        svg.append(drawn("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, number(v)));
      });
      marks(axis, slot, mostTicks(axis, room), (part, text) => {
        svg.append(drawn("text", { x: Math.min(x(part), width - 4 * text.length), y: height - below + 18, "text-anchor": "middle" }, text));
      });
      called.forEach((text, i) => {
        svg.append(drawn("text", { x: left + room / 2, y: height - 6 - 16 * (called.length - 1 - i), "text-anchor": "middle", class: "name" }, text));
      });
      density(svg, term, axis, slot, { left, inner, base: height - below, strip });
      for (const { i, values } of [...curves].reverse()) {
        let path = "";
        for (let cell = 0; cell < axis.regular; cell++) {
          const [from, to] = slot[cell];
          if (!(to > from)) continue;
          // Without steps it is a curve through the middles of its cells.
          if (term.smooth) path += `${path ? "L" : "M"}${x(point(axis, slot, cell))} ${y(values[cell])}`;
          else path += `${path ? "V" : `M${x(from)} `}${y(values[cell])}H${x(to)}`;
        }
        const size = i ? 1.6 : 2.4;
        svg.append(drawn("path", { d: path, fill: "none", stroke: curveColor(i), "stroke-width": size, "stroke-dasharray": dashes(i, size) }));
        axis.special.forEach(([cell]) => {
          svg.append(drawn("circle", { cx: x(middle(slot, cell)), cy: y(values[cell]), r: 4.5, fill: i ? "none" : curveColor(i), stroke: curveColor(i), "stroke-width": 1.6 }));
        });
      }
      svg.addEventListener("pointermove", (event) => {
        const cell = cellAt(slot, (event.offsetX - left) / inner);
        if (cell < 0) return;
        report.write(place.readout, said(term, axis, curves, cell));
      });
      return svg;
    }

    function said(term, axis, curves, cell) {
      const versions = curves.map(({ i, values }) => `${data.curves[i]} ${signed(values[cell])}`);
      const at = term.smooth && axis.cuts && !axis.labelled && cell < axis.regular ? `, at ${number((axis.edges[cell] + axis.edges[cell + 1]) / 2, 4)}` : "";
      return `${term.name} ${axis.labels[cell]}${at} (${share(report.mass(term)[cell])} of the data): ${versions.join("; ")}`;
    }

    // The area of a bar is its share of the data, also of special cells.
    function density(svg, term, axis, slot, { left, inner, base, strip }) {
      const mass = report.mass(term), held = report.unpack(axis.density);
      const width = slot[axis.regular - 1][1] * inner / held.length;
      const bars = [...held].map((part, b) => ({ part, x: left + b * width, width: width + 0.3 }));
      axis.special.forEach(([cell]) => {
        const [from, to] = slot[cell].map((part) => part * inner), wide = to - from - 16;
        bars.push({ part: mass[cell] * width / wide, x: left + from + 8, width: wide });
      });
      const most = Math.max(...bars.map(({ part }) => part)) || 1;
      bars.forEach(({ part, x, width }) => {
        const height = part / most * strip;
        svg.append(drawn("rect", { x, width, y: base - height, height, class: "mass" }));
      });
    }

    function bars(term, axis, curves, width) {
      const mass = report.mass(term), cells = term.cells[state.output], pale = term.pale[state.output];
      const line = 22, left = Math.min(170, width * 0.36), right = 70, top = 6;
      const height = top + line * cells.length + 26;
      const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
      const [low, high] = extent(curves.flatMap(({ values }) => cells.map((cell) => values[cell])));
      const x = (v) => left + (v - low) / (high - low) * (width - left - right);
      ticks(low, high, 4).forEach((v) => {
        svg.append(drawn("line", { x1: x(v), x2: x(v), y1: top, y2: height - 22, class: v === 0 ? "zero" : "rule" }));
        svg.append(drawn("text", { x: x(v), y: height - 8, "text-anchor": "middle" }, number(v)));
      });
      const most = Math.max(...cells.map((cell) => mass[cell])) || 1;
      cells.forEach((cell, row) => {
        const centre = top + line * (row + 0.5);
        const label = shorten(axis.labels[cell], Math.floor(left / 7));
        svg.append(drawn("text", { x: left - 6, y: centre + 4, "text-anchor": "end" }, label));
        svg.append(drawn("rect", { x: width - right + 8, y: centre - 6, height: 12, width: 58 * mass[cell] / most, class: "mass" }));
        curves.forEach(({ i, values }, place) => {
          if (place === 0) {
            const from = x(Math.min(values[cell], 0)), to = x(Math.max(values[cell], 0));
            const filled = mass[cell] > 0 ? curveColor(i) : "none";
            svg.append(drawn("rect", { x: from, y: centre - 7, width: Math.max(to - from, 1), height: 14, fill: filled, stroke: curveColor(i), opacity: pale.includes(cell) ? 0.35 : 1 }));
          } else {
            svg.append(drawn("line", { x1: x(values[cell]), x2: x(values[cell]), y1: centre - 9, y2: centre + 9, stroke: curveColor(i), "stroke-width": 3 }));
          }
        });
        const target = drawn("rect", { x: 0, y: centre - line / 2, width, height: line, fill: "transparent" });
        target.addEventListener("pointerenter", () => { report.write(place.readout, said(term, axis, curves, cell)); });
        svg.append(target);
      });
      return svg;
    }

    draw();
  })();

  (function pairs() {
    const terms = effectsOf(2);
    const place = terms.length ? report.reveal("pair-explorer") : null;
    if (!place) return;
    const known = data.curves.map((_, i) => i).filter((i) => present(terms, i));
    const state = { term: 0, output: 0, curve: known[0], cell: [0, 0], view: 0, withMains: true, all: false };
    const chosen = choices("Pair", terms, state, () => { state.cell = [0, 0]; draw(); });
    const kinds = report.switches("Lines", ["with the main effects", "pair alone"], [0], false,
      (on) => { state.withMains = on[0] === 0; draw(); });
    place.controls.append(
      ...chosen.places,
      report.switches("Version", known.map((i) => data.curves[i]), [0], false,
        (on) => { state.curve = known[on[0]]; draw(); }),
      report.switches("View", ["cells", "lines along the first feature", "lines along the second"], [0], false,
        (on) => { state.view = on[0]; draw(); }),
      kinds,
      ...(leavesOut(terms) ? [rangeSwitch((all) => { state.all = all; draw(); })] : []),
    );
    report.redraws.push(draw);

    function described(term, [low, high]) {
      const called = `${term.name}, ${data.curves[state.curve]}`;
      const [across, up] = term.axes.map((i) => data.axes[i].regular);
      const where = term.smooth ? `, at the middles of ${across} by ${up} cells` : "";
      const merged = term.merged ? `. ${term.merged.join(" by ")} cells were merged to ${across} by ${up}; values are means over merged cells` : "";
      return `${called}, ${data.label[state.output]}: from ${number(low)} to ${number(high)}${where}${merged}`;
    }

    // The colour of an effect between -1 and 1, the ends of the scale.
    function shade(part) {
      const last = data.colors.length / 6 - 1;
      const i = Math.round((Math.max(-1, Math.min(1, part)) + 1) * last / 2);
      return `#${data.colors.slice(6 * i, 6 * i + 6)}`;
    }

    // How opaque a cell is: fully if half of the data are in no lighter one.
    function opacity(term, held) {
      return data.opacity + (1 - data.opacity) * Math.sqrt(Math.min(1, held / term.usual));
    }

    function draw() {
      chosen.follow();
      kinds.hidden = state.view === 0;
      const term = terms[state.term];
      const [across, up] = term.axes.map((i) => shownAxis(i, state.all));
      const values = report.values(term, state.curve, state.output), mass = report.mass(term);
      const width = Math.max(Math.min(place.canvas.clientWidth, 640), 280);
      if (!values) {
        place.canvas.replaceChildren(element("p", { text: "This version is not known for this pair." }));
        report.write(place.readout, "");
        return;
      }
      if (values.every((value) => value === 0)) {
        place.canvas.replaceChildren(element("p", { text: `${term.name}, ${data.curves[state.curve]}: no effect${here(state.output)}.` }));
        report.write(place.readout, "");
        return;
      }
      if (state.view) {
        const tell = (text) => { report.write(place.readout, text); };
        const { curve, output, withMains, all } = state;
        place.canvas.replaceChildren(report.lines({ term, along: state.view - 1, withMains, curve, output, width, tell, all }));
        return;
      }
      const left = up.cuts ? 62 : Math.min(130, width * 0.28), top = 26, right = 8;
      const called = names(across, mostTicks(across, width - left - right)), down = depth(across, width - left - right);
      const bottom = 46 + 16 * called.length + down;
      const height = Math.min(width * 0.78, 460) - 70 + top + bottom;
      const inner = [width - left - right, height - top - bottom];
      const slot = [slots(across, { output: state.output, width: inner[0] }), slots(up, { output: state.output })];
      const dense = Math.min(window.devicePixelRatio || 1, 2);
      // Between cells that begin within a pixel the ground would shine through.
      const snap = (place) => Math.round(place * dense) / dense;
      const x = (part) => snap(left + part * inner[0]);
      const y = (part) => snap(top + (up.cuts ? 1 - part : part) * inner[1]);
      const frame = element("div", { class: "heat", tabindex: "0", role: "application", "aria-label": `Cells of ${term.name}; move with the arrow keys` });
      const canvas = element("canvas", {});
      canvas.width = width * dense;
      canvas.height = height * dense;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(dense, dense);
      const look = getComputedStyle(document.documentElement);
      const colours = Object.fromEntries(["ink", "empty", "hatch"].map((name) => [name, look.getPropertyValue(`--${name}`).trim()]));
      frame.append(canvas);
      const ends = term.curves[state.curve].ends[state.output], limit = Math.max(-ends[0], ends[1]) || 1;
      const hatch = striped(pen, colours);
      const box = (i, j) => {
        const [a, b] = slot[0][i], [c, d] = slot[1][j];
        return [x(a), Math.min(y(c), y(d)), Math.max(x(b) - x(a), 0), Math.abs(y(d) - y(c))];
      };
      for (let i = 0; i < across.cells; i++) {
        for (let j = 0; j < up.cells; j++) {
          const at = i * up.cells + j, [px, py, w, h] = box(i, j);
          if (!(w > 0 && h > 0)) continue;
          pen.fillStyle = mass[at] > 0 ? shade(values[at] / limit) : hatch;
          pen.globalAlpha = mass[at] > 0 ? opacity(term, mass[at]) : 1;
          pen.fillRect(px, py, w, h);
        }
      }
      pen.globalAlpha = 1;
      pen.fillStyle = colours.ink;
      pen.font = "12px system-ui, sans-serif";
      marks(across, slot[0], mostTicks(across, inner[0]), (part, text) => {
        const half = pen.measureText(text).width / 2;
        const at = Math.max(left + 8, Math.min(x(part), width - (down ? 14 : half)));
        pen.textAlign = down ? "right" : "center";
        pen.save();
        pen.translate(at, height - bottom + (down ? 12 : 16));
        if (down) pen.rotate(-Math.PI / 4);
        pen.fillText(text, 0, 0);
        pen.restore();
      });
      marks(up, slot[1], Math.floor(inner[1] / 24), (part, text) => {
        pen.textAlign = "right";
        pen.fillText(text, left - 6, y(part) + 4);
      });
      pen.textAlign = "center";
      called.forEach((text, i) => pen.fillText(text, left + inner[0] / 2, height - 28 - 16 * (called.length - 1 - i)));
      pen.textAlign = "left";
      // Numbers grow upwards, categories read from top to bottom.
      pen.fillText(`${up.cuts ? "\u2191" : "\u2193"} ${names(up, Math.floor(inner[1] / 24)).join(", ")}`, 2, 14, width - 4);
      legend(pen, left, height - 14, inner[0], limit);
      const cursor = element("div", { class: "cursor", hidden: "" });
      frame.append(cursor);
      place.canvas.replaceChildren(frame);
      const tell = () => {
        const [i, j] = state.cell, at = i * up.cells + j;
        const [px, py, w, h] = box(i, j);
        cursor.hidden = false;
        cursor.style.cssText = `left:${px}px;top:${py}px;width:${Math.max(w, 2)}px;height:${Math.max(h, 2)}px`;
        const where = `${data.features[across.feature]} ${across.labels[i]}, ${data.features[up.feature]} ${up.labels[j]}`;
        const rows = mass[at] > 0 ? `${share(mass[at])} of the data` : "no data";
        report.write(place.readout, `${where} (${rows}): ${signed(values[at])}, ${data.curves[state.curve]}`);
      };
      canvas.addEventListener("pointermove", (event) => {
        const part = (event.offsetY - top) / inner[1];
        const i = cellAt(slot[0], (event.offsetX - left) / inner[0]), j = cellAt(slot[1], up.cuts ? 1 - part : part);
        if (i < 0 || j < 0) return;
        state.cell = [i, j];
        tell();
      });
      frame.addEventListener("keydown", (event) => {
        const upward = up.cuts ? 1 : -1;
        const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, upward], ArrowDown: [0, -upward] }[event.key];
        if (!move) return;
        event.preventDefault();
        state.cell = slot.map((along, k) => (move[k] ? step(along, state.cell[k], move[k]) : state.cell[k]));
        tell();
      });
      frame.addEventListener("focus", tell);
      report.write(place.readout, described(term, ends));
    }

    function striped(pen, colours) {
      const tile = element("canvas", { width: 6, height: 6 }), brush = tile.getContext("2d");
      brush.fillStyle = colours.empty;
      brush.fillRect(0, 0, 6, 6);
      brush.strokeStyle = colours.hatch;
      brush.beginPath();
      [[-3, 3, 3, -3], [0, 6, 6, 0], [3, 9, 9, 3]].forEach(([a, b, c, d]) => { brush.moveTo(a, b); brush.lineTo(c, d); });
      brush.stroke();
      return pen.createPattern(tile, "repeat");
    }

    function legend(pen, left, base, width, limit) {
      const label = pen.measureText(number(-limit)).width + 5;
      const span = Math.min(width - 2 * label, 220), start = left + (width - span) / 2;
      for (let i = 0; i < span; i++) {
        pen.fillStyle = shade(2 * i / (span - 1) - 1);
        pen.fillRect(start + i, base - 4, 1.5, 8);
      }
      pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
      pen.textAlign = "right";
      pen.fillText(number(-limit), start - 5, base + 4);
      pen.textAlign = "left";
      pen.fillText(number(limit), start + span + 5, base + 4);
    }

    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    draw();
  })();
})();
