// The explorers: one main effect in several versions, one pair cell by cell.
(() => {
  const { data, element, drawn, number, signed, ticks, parts, slots, marks, mostTicks, depth, names, step } = report;
  const colour = (i) => `var(--curve-${i % 7})`;
  const dashes = ["", "5 3", "2 2", "8 3 2 3", "1 2", "10 3", "4 1"];
  const share = (part) => `${(100 * part).toFixed(part < 0.01 ? 2 : 1)} %`;
  const several = data.outputs.length > 1;
  const here = (output) => (several ? ` on ${data.outputs[output]}` : "");

  // The output on which an effect is largest.
  function largest(term) {
    return term.variance.reduce((best, own, k) => (own > term.variance[best] ? k : best), 0);
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
      else if (!state.isChosen) state.output = largest(terms[i]);
      draw();
    };
    state.output = largest(terms[0]);
    const effect = report.select(label, terms.map(called), (i) => open(i));
    const output = report.select("Output", data.outputs, (k) => { state.isChosen = true; open(state.term, k); });
    const follow = () => {
      effect.box.value = state.term;
      output.box.value = state.output;
      if (several) terms.forEach((term, i) => { effect.box.options[i].textContent = called(term); });
    };
    report.openers.push((term, own) => {
      const i = terms.indexOf(term);
      if (i < 0) return;
      open(i, own);
      effect.place.scrollIntoView({ behavior: "smooth", block: "start" });
      effect.box.focus({ preventScroll: true });
    });
    return { places: [effect.place, ...(several ? [output.place] : [])], follow };
  }

  function present(terms, curve) {
    return terms.some((term) => term.curves[curve]);
  }

  (function mains() {
    const terms = data.terms.filter((term) => term.features.length === 1);
    const place = terms.length ? report.reveal("main-explorer") : null;
    if (!place) return;
    terms.sort((a, b) => b.share - a.share);
    const known = data.curves.map((_, i) => i).filter((i) => present(terms, i));
    const state = { term: 0, output: 0, curves: known.slice(0, 2) };
    const chosen = choices("Effect", terms, state, draw);
    place.controls.append(
      ...chosen.places,
      report.switches("Versions", known.map((i) => data.curves[i]), known.map((_, i) => i).slice(0, 2), true,
        (on) => { state.curves = on.map((i) => known[i]); draw(); }),
    );
    report.redraws.push(draw);

    function draw() {
      chosen.follow();
      const term = terms[state.term];
      const axis = data.axes[term.axes[0]];
      const curves = state.curves
        .map((i) => ({ i, values: report.values(term, i, state.output) }))
        .filter((curve) => curve.values);
      const width = Math.max(Math.min(place.canvas.clientWidth, 760), 280);
      const picture = axis.cuts ? steps(term, axis, curves, width) : bars(term, axis, curves, width);
      picture.setAttribute("role", "img");
      const first = curves.length ? curves[0].values : new Float64Array(1);
      const [low, high] = [Math.min, Math.max].map((end) => first.reduce((a, b) => end(a, b)));
      const range = `${data.label[state.output]} from ${number(low)} to ${number(high)}`;
      const words = low === 0 && high === 0 ? `no effect${here(state.output)}` : range;
      picture.setAttribute("aria-label", `${term.name}, ${words}`);
      place.canvas.replaceChildren(picture);
      const drawnAt = term.smooth && axis.cuts ? `, a curve through the middles of ${axis.regular} cells` : "";
      place.readout.textContent = `${term.name}: ${words}${drawnAt}`;
    }

    function extent(curves) {
      let low = 0, high = 0;
      curves.forEach(({ values }) => values.forEach((v) => { low = Math.min(low, v); high = Math.max(high, v); }));
      const margin = 0.06 * (high - low) || 1;
      return [low - margin, high + margin];
    }

    function steps(term, axis, curves, width) {
      const called = names(axis), below = 26 + 16 * called.length;
      const left = 52, right = 8, top = 8, strip = 26, bottom = strip + below + 2, height = 228 + bottom;
      const special = report.specialCells(axis), wide = report.specialWidth(axis, width - left - right);
      const room = special.length * wide;
      const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
      const at = parts(axis), inner = width - left - right - room;
      const x = (part) => left + part * inner;
      const [low, high] = extent(curves);
      const y = (v) => top + (high - v) / (high - low) * (height - top - bottom);
      ticks(low, high, 5).forEach((v) => {
        svg.append(drawn("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: v === 0 ? "zero" : "rule" }));
        svg.append(drawn("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, number(v)));
      });
      report.numericTicks(axis, mostTicks(axis, inner)).forEach(({ part, text }) => {
        svg.append(drawn("text", { x: Math.min(x(part), width - 4 * text.length), y: height - below + 18, "text-anchor": "middle" }, text));
      });
      called.forEach((text, i) => {
        svg.append(drawn("text", { x: left + inner / 2, y: height - 6 - 16 * (called.length - 1 - i), "text-anchor": "middle", class: "name" }, text));
      });
      density(svg, term, axis, inner, height - below, strip, { left, special, wide });
      for (const { i, values } of [...curves].reverse()) {
        let path = "";
        for (let cell = 0; cell < axis.regular; cell++) {
          if (!(at[cell + 1] > at[cell])) continue;
          // Without steps it is a curve through the middles of its cells.
          if (term.smooth) path += `${path ? "L" : "M"}${x((at[cell] + at[cell + 1]) / 2)} ${y(values[cell])}`;
          else path += `${path ? "V" : `M${x(at[cell])} `}${y(values[cell])}H${x(at[cell + 1])}`;
        }
        svg.append(drawn("path", { d: path, fill: "none", stroke: colour(i), "stroke-width": i ? 1.6 : 2.4, "stroke-dasharray": dashes[i % 7] }));
        special.forEach((cell, s) => {
          svg.append(drawn("circle", { cx: width - right - room + wide * (s + 0.5), cy: y(values[cell]), r: 4.5, fill: i ? "none" : colour(i), stroke: colour(i), "stroke-width": 1.6 }));
        });
      }
      special.forEach((cell, s) => {
        svg.append(drawn("text", { x: width - right - room + wide * (s + 0.5), y: height - below + 18, "text-anchor": "middle" }, axis.labels[cell]));
      });
      svg.addEventListener("pointermove", (event) => {
        let cell = report.cellAt(axis, (event.offsetX - left) / inner);
        const slot = Math.floor((event.offsetX - (width - right - room)) / wide);
        if (slot >= 0 && slot < special.length) cell = special[slot];
        if (cell < 0 || cell >= axis.cells) return;
        place.readout.textContent = said(term, axis, curves, cell);
      });
      return svg;
    }

    function said(term, axis, curves, cell) {
      const versions = curves.map(({ i, values }) => `${data.curves[i]} ${signed(values[cell])}`);
      const middle = term.smooth && axis.cuts && cell < axis.regular ? `, at ${number((axis.edges[cell] + axis.edges[cell + 1]) / 2, 4)}` : "";
      return `${term.name} ${axis.labels[cell]}${middle} (${share(report.mass(term)[cell])} of the data): ${versions.join("; ")}`;
    }

    // The area of a bar is its share of the data, also of special cells.
    function density(svg, term, axis, inner, base, strip, { left, special, wide }) {
      const mass = report.mass(term), at = parts(axis);
      const bins = report.places(axis) || 60, held = new Float64Array(bins);
      for (let cell = 0; cell < axis.regular; cell++) {
        const from = at[cell] * bins, to = at[cell + 1] * bins;
        for (let b = Math.floor(from); b < Math.min(Math.ceil(to), bins) && to > from; b++) {
          held[b] += mass[cell] * Math.max(Math.min(to, b + 1) - Math.max(from, b), 0) / (to - from);
        }
      }
      const width = inner / bins;
      const bars = [...held].map((part, b) => ({ part, x: left + b * width, width: width + 0.3 }));
      special.forEach((cell, s) => bars.push({ part: mass[cell] * width / (wide - 16), x: left + inner + s * wide + 8, width: wide - 16 }));
      const most = Math.max(...bars.map((own) => own.part)) || 1;
      bars.forEach(({ part, x, width }) => {
        const height = part / most * strip;
        svg.append(drawn("rect", { x, width, y: base - height, height, class: "mass" }));
      });
    }

    function bars(term, axis, curves, width) {
      const mass = report.mass(term);
      const without = report.hidden(axis);
      const cells = [...Array(axis.cells).keys()].filter((cell) => !without[cell]).sort((a, b) => mass[b] - mass[a]).slice(0, 40);
      const first = curves.length ? curves[0].values : new Float64Array(axis.cells);
      cells.sort((a, b) => (a >= axis.regular) - (b >= axis.regular) || first[b] - first[a]);
      const line = 22, left = Math.min(170, width * 0.36), right = 70, top = 6;
      const height = top + line * cells.length + 26;
      const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
      const [low, high] = extent(curves);
      const x = (v) => left + (v - low) / (high - low) * (width - left - right);
      ticks(low, high, 4).forEach((v) => {
        svg.append(drawn("line", { x1: x(v), x2: x(v), y1: top, y2: height - 22, class: v === 0 ? "zero" : "rule" }));
        svg.append(drawn("text", { x: x(v), y: height - 8, "text-anchor": "middle" }, number(v)));
      });
      const most = Math.max(...cells.map((cell) => mass[cell])) || 1;
      cells.forEach((cell, row) => {
        const middle = top + line * (row + 0.5);
        const label = axis.labels[cell];
        const short = label.length > left / 7 ? `${label.slice(0, Math.floor(left / 7) - 1)}\u2026` : label;
        svg.append(drawn("text", { x: left - 6, y: middle + 4, "text-anchor": "end" }, short));
        svg.append(drawn("rect", { x: width - right + 8, y: middle - 6, height: 12, width: 58 * mass[cell] / most, class: "mass" }));
        curves.forEach(({ i, values }, place) => {
          if (place === 0) {
            const from = x(Math.min(values[cell], 0)), to = x(Math.max(values[cell], 0));
            const filled = mass[cell] > 0 ? colour(i) : "none";
            svg.append(drawn("rect", { x: from, y: middle - 7, width: Math.max(to - from, 1), height: 14, fill: filled, stroke: colour(i) }));
          } else {
            svg.append(drawn("line", { x1: x(values[cell]), x2: x(values[cell]), y1: middle - 9, y2: middle + 9, stroke: colour(i), "stroke-width": 3 }));
          }
        });
        const target = drawn("rect", { x: 0, y: middle - line / 2, width, height: line, fill: "transparent" });
        target.addEventListener("pointerenter", () => { place.readout.textContent = said(term, axis, curves, cell); });
        svg.append(target);
      });
      return svg;
    }

    draw();
  })();

  (function pairs() {
    const terms = data.terms.filter((term) => term.features.length === 2);
    const place = terms.length ? report.reveal("pair-explorer") : null;
    if (!place) return;
    terms.sort((a, b) => b.share - a.share);
    const known = data.curves.map((_, i) => i).filter((i) => present(terms, i));
    const state = { term: 0, output: 0, curve: known[0], cell: [0, 0], view: 0, withMain: true };
    const chosen = choices("Pair", terms, state, () => { state.cell = [0, 0]; draw(); });
    const kinds = report.switches("Lines", ["with the main effect", "pair alone"], [0], false,
      (on) => { state.withMain = on[0] === 0; draw(); });
    place.controls.append(
      ...chosen.places,
      report.switches("Version", known.map((i) => data.curves[i]), [0], false,
        (on) => { state.curve = known[on[0]]; draw(); }),
      report.switches("View", ["cells", "lines along the first feature", "lines along the second"], [0], false,
        (on) => { state.view = on[0]; draw(); }),
      kinds,
    );
    report.redraws.push(draw);

    // The largest size among 99.5 % of the mass; a few cells far out would leave the rest white.
    function colourLimit(values, mass) {
      const cells = [...values.keys()].filter((at) => mass[at] > 0).sort((a, b) => Math.abs(values[a]) - Math.abs(values[b]));
      const total = cells.reduce((sum, at) => sum + mass[at], 0);
      let upto = 0;
      const last = cells.find((at) => (upto += mass[at]) >= 0.995 * total);
      return last === undefined ? 0 : Math.abs(values[last]);
    }

    // What is shown: from where to where, and where the colours end before that.
    function described(term, values, mass, limit) {
      const called = `${term.name}, ${data.curves[state.curve]}`;
      let low = Infinity, high = -Infinity;
      values.forEach((own, at) => {
        if (mass[at] > 0) { low = Math.min(low, own); high = Math.max(high, own); }
      });
      if (low > high) return `${called}: no data`;
      const [across, up] = term.axes.map((i) => data.axes[i].regular);
      const ends = Math.max(-low, high) > limit * (1 + 1e-9) ? `; colours end at \u00b1${number(limit)}` : "";
      const where = term.smooth ? `, at the middles of ${across} by ${up} cells` : "";
      const merged = term.merged ? `. ${term.merged.join(" by ")} cells, merged to ${across} by ${up}, of which these are the means` : "";
      return `${called}, ${data.label[state.output]}: from ${number(low)} to ${number(high)} where there are data${ends}${where}${merged}`;
    }

    // From blue over white to red, as in the figures: told apart under every common colour blindness.
    const scale = [
      [5, 48, 97], [33, 102, 172], [67, 147, 195], [146, 197, 222], [209, 229, 240], [247, 247, 247],
      [253, 219, 199], [244, 165, 130], [214, 96, 77], [178, 24, 43], [103, 0, 31],
    ];
    function shade(part) {
      const last = scale.length - 1, at = (Math.max(-1, Math.min(1, part)) + 1) * last / 2;
      const i = Math.min(Math.floor(at), last - 1), t = at - i;
      return `rgb(${scale[i].map((c, k) => Math.round(c + t * (scale[i + 1][k] - c))).join(",")})`;
    }

    function draw() {
      chosen.follow();
      kinds.hidden = state.view === 0;
      const term = terms[state.term];
      const [across, up] = term.axes.map((i) => data.axes[i]);
      const values = report.values(term, state.curve, state.output), mass = report.mass(term);
      const width = Math.max(Math.min(place.canvas.clientWidth, 640), 280);
      if (!values) {
        place.canvas.replaceChildren(element("p", { text: "This version is not known for this pair." }));
        place.readout.textContent = "";
        return;
      }
      if (values.every((own) => own === 0)) {
        place.canvas.replaceChildren(element("p", { text: `${term.name}, ${data.curves[state.curve]}: no effect${here(state.output)}.` }));
        place.readout.textContent = "";
        return;
      }
      if (state.view) {
        const tell = (text) => { place.readout.textContent = text; };
        const { curve, output, withMain } = state;
        place.canvas.replaceChildren(report.lines({ term, along: state.view - 1, withMain, curve, output, width, tell }));
        return;
      }
      const left = up.cuts ? 62 : Math.min(130, width * 0.28), top = 26, right = 8;
      const called = names(across), down = depth(across, width - left - right);
      const bottom = 46 + 16 * called.length + down;
      const height = Math.min(width * 0.78, 460) - 70 + top + bottom;
      const inner = [width - left - right, height - top - bottom];
      const slot = [slots(across), slots(up)];
      const x = (part) => left + part * inner[0];
      const y = (part) => top + (up.cuts ? 1 - part : part) * inner[1];
      const frame = element("div", { class: "heat", tabindex: "0", role: "application", "aria-label": `Cells of ${term.name}; move with the arrow keys` });
      const canvas = element("canvas", {});
      const dense = Math.min(window.devicePixelRatio || 1, 2);
      canvas.width = width * dense;
      canvas.height = height * dense;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(dense, dense);
      const look = getComputedStyle(document.documentElement);
      const colours = Object.fromEntries(["ink", "empty", "hatch"].map((name) => [name, look.getPropertyValue(`--${name}`).trim()]));
      frame.append(canvas);
      const limit = colourLimit(values, mass) || 1;
      const without = [report.hidden(across), report.hidden(up)];
      const hatch = striped(pen, colours);
      const box = (i, j) => {
        const [a, b] = slot[0][i], [c, d] = slot[1][j];
        return [x(a), Math.min(y(c), y(d)), Math.max(x(b) - x(a), 0), Math.abs(y(d) - y(c))];
      };
      for (let i = 0; i < across.cells; i++) {
        for (let j = 0; j < up.cells; j++) {
          if (without[0][i] || without[1][j]) continue;
          const at = i * up.cells + j, [px, py, w, h] = box(i, j);
          pen.fillStyle = mass[at] > 0 ? shade(values[at] / limit) : hatch;
          pen.fillRect(px, py, w + 0.4, h + 0.4);
        }
      }
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
      pen.fillText(`${up.cuts ? "\u2191" : "\u2193"} ${names(up).join(", ")}`, 2, 14, width - 4);
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
        place.readout.textContent = `${where} (${rows}): ${signed(values[at])}, ${data.curves[state.curve]}`;
      };
      const find = (list, part) => list.findIndex(([a, b]) => part >= a && part < b);
      canvas.addEventListener("pointermove", (event) => {
        const part = (event.offsetY - top) / inner[1];
        const i = find(slot[0], (event.offsetX - left) / inner[0]), j = find(slot[1], up.cuts ? 1 - part : part);
        if (i < 0 || j < 0) return;
        state.cell = [i, j];
        tell();
      });
      frame.addEventListener("keydown", (event) => {
        const upward = up.cuts ? 1 : -1;
        const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, upward], ArrowDown: [0, -upward] }[event.key];
        if (!move) return;
        event.preventDefault();
        state.cell = [across, up].map((axis, k) => (move[k] ? step(axis, state.cell[k], move[k]) : state.cell[k]));
        tell();
      });
      frame.addEventListener("focus", tell);
      place.readout.textContent = described(term, values, mass, limit);
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
