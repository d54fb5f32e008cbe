// Where the cells of an axis are drawn, and its ticks.
(() => {
  const { data, number, ticks } = report;
  // So many categories are all named; where they do not fit side by side, their names are turned.
  const mostNamed = 20;
  // So many whole numbers all have a tick, where there is room.
  const fewSlots = 12;
  // So much before a special cell has no tick: its name needs the place.
  const roomForName = 0.08;

  // Where the edges of the intervals of an axis lie between 0 and 1.
  function parts(axis) {
    if (!axis.parts) {
      const at = axis.places || axis.edges, first = at[0], span = at[axis.regular] - first || 1;
      axis.parts = at.map((place) => (place - first) / span);
    }
    return axis.parts;
  }

  // The regular cell that is drawn at a place between 0 and 1; -1 outside.
  function cellAt(axis, part) {
    return part < 0 ? -1 : Math.max(parts(axis).findIndex((edge) => part < edge) - 1, -1);
  }

  function specialCells(axis) {
    const without = report.hidden(axis);
    return [...Array(axis.cells).keys()].filter((cell) => cell >= axis.regular && !without[cell]);
  }

  // Where the cells of an axis lie between 0 and 1; special cells after a gap.
  function slots(axis) {
    const without = report.hidden(axis), gap = 0.015, strip = 0.045;
    const special = specialCells(axis), room = 1 - special.length * (strip + gap), found = [];
    for (let cell = 0; cell < axis.regular; cell++) {
      const ends = [cell, cell + 1].map((i) => (axis.cuts ? parts(axis)[i] : i / axis.regular));
      found.push(ends.map((end) => end * room));
    }
    for (let cell = axis.regular; cell < axis.cells; cell++) {
      const from = room + gap + special.indexOf(cell) * (strip + gap);
      found.push(without[cell] ? [1, 1] : [from, from + strip]);
    }
    return found;
  }

  // Ticks of intervals, at most so many, with their place among these between 0 and 1: round
  // numbers; of whole numbers, and of just two values, the numbers themselves.
  function numericTicks(axis, most) {
    if (axis.places) return beforeSpecial(axis, edgeTicks(axis, most));
    const from = axis.edges[0], to = axis.edges[axis.regular];
    const found = axis.two || ticks(from, to, Math.max(most, 2), axis.whole);
    const placed = found.map((v) => ({ part: (v - from) / (to - from || 1), text: number(v, 6) }));
    return axis.two || axis.slots <= fewSlots ? placed : beforeSpecial(axis, placed);
  }

  function beforeSpecial(axis, placed) {
    return specialCells(axis).length ? placed.filter(({ part }) => part <= 1 - roomForName) : placed;
  }

  // Of cells that are not to scale some edges are named; the outer ones are the ends of the data.
  function edgeTicks(axis, most) {
    const at = parts(axis), edges = [...at.keys()].filter((i) => i === 0 || at[i] > at[i - 1]);
    const last = Math.min(edges.length, Math.max(most, 2), 7) - 1;
    const chosen = Array.from({ length: last + 1 }, (_, k) => edges[Math.round((k * (edges.length - 1)) / (last || 1))]);
    const values = chosen.map((i, k) => {
      if (!axis.whole) return axis.edges[i];
      // An edge between whole numbers is named for the one above it, the last one below.
      return k < last ? Math.ceil(axis.edges[i]) : Math.floor(axis.edges[i]);
    });
    const written = [3, 4, 6, 9].map((digits) => values.map((v) => number(v, axis.whole ? 9 : digits)));
    const texts = written.find((own) => new Set(own).size === own.length) || written[3];
    return chosen.map((i, k) => ({ part: at[i], text: texts[k] }));
  }

  // The number of places of the same width, where there are such: equal cells, or whole numbers.
  function places(axis) {
    return axis.places ? axis.places[axis.regular] : axis.slots;
  }

  // How wide the place of each special cell is beside the intervals: as theirs, where they are few.
  function specialWidth(axis, width) {
    const count = places(axis), least = 46;
    return count <= 20 ? Math.max(width / (count + specialCells(axis).length), least) : least;
  }

  // How many ticks have room side by side.
  function mostTicks(axis, width) {
    if (!axis.cuts) return Math.floor(width / 105);
    return Math.floor(width / (axis.slots <= fewSlots && !axis.places ? 36 : 78));
  }

  // Writes the ticks of an axis: numbers, or names of categories, at most so many.
  function marks(axis, slot, most, write) {
    if (axis.cuts) {
      const room = slot[axis.regular - 1][1];
      numericTicks(axis, most).forEach(({ part, text }) => write(part * room, text));
    } else {
      const each = axis.regular <= mostNamed ? 1 : Math.ceil(axis.regular / Math.max(most, 1));
      for (let cell = 0; cell < axis.regular; cell += each) {
        write((slot[cell][0] + slot[cell][1]) / 2, axis.labels[cell].slice(0, 16));
      }
    }
    specialCells(axis).forEach((cell) => write((slot[cell][0] + slot[cell][1]) / 2, axis.labels[cell]));
  }

  // How far down the names of categories reach that do not fit side by side; 0 where they do.
  function depth(axis, width) {
    if (axis.cuts || axis.regular > mostNamed) return 0;
    const longest = Math.max(...axis.labels.map((text) => Math.min(text.length, 16)));
    return longest * 7 > width / axis.regular ? Math.round(longest * 4.8) + 4 : 0;
  }

  // The lines below an axis: the name of the feature, and that it is not to scale.
  function names(axis) {
    return [data.features[axis.feature], ...(axis.places ? ["not to scale: equal cells"] : [])];
  }

  // The next cell that is drawn, so many cells on.
  function step(axis, cell, by) {
    const without = report.hidden(axis);
    for (let next = cell + by; next >= 0 && next < axis.cells; next += by) {
      if (!without[next]) return next;
    }
    return cell;
  }

  Object.assign(report, { parts, cellAt, specialCells, places, specialWidth, slots, numericTicks, mostTicks, marks, depth, names, step });
})();
