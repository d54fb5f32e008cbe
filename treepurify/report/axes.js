// Where the cells of an axis are drawn, and its ticks.
(() => {
  const { data, shorten } = report;
  // So many categories are all named; where they do not fit side by side, their names are turned.
  const mostNamed = 20;
  // So many pixels the place of a special cell has at least, for its name.
  const leastSpecial = 46;

  // An axis as the figures have it, without the few values that lie far out, or all of it.
  function shownAxis(i, all) {
    const axis = data.axes[i];
    if (all || !axis.central) return axis;
    axis.shown ||= { ...axis, parts: null, places: null, middles: null, ...axis.central };
    return axis.shown;
  }

  // Whether some axis of these terms leaves values out.
  const leavesOut = (terms) => terms.some((term) => term.axes.some((i) => data.axes[i].central));

  // The choice between the two.
  function rangeSwitch(change) {
    return report.switches("Range", ["99% of the data", "all values"], [0], false, (on) => change(on[0] === 1));
  }

  // Where the edges of the intervals of an axis lie between 0 and 1.
  function parts(axis) {
    if (!axis.parts) {
      const at = axis.places || axis.edges, first = at[0], span = at[axis.regular] - first || 1;
      axis.parts = at.map((place) => (place - first) / span);
    }
    return axis.parts;
  }

  // Where the cells of an axis lie between 0 and 1, special cells after a gap; those without data
  // have no place. Categories stand in the order of an output, or in their own. Along a width in
  // pixels special cells have room for their names.
  function slots(axis, { output, width } = {}) {
    const whole = axis.special.reduce((sum, [, gap, size]) => sum + gap + size, 1);
    const least = width ? leastSpecial / width : 0;
    const special = axis.special.map(([cell, gap, size]) => [cell, gap / whole, Math.max(size / whole, least)]);
    const room = special.reduce((left, [, gap, size]) => left - gap - size, 1);
    const ends = axis.edges ? parts(axis) : Array.from({ length: axis.regular + 1 }, (_, i) => i / axis.regular);
    const order = axis.order && output !== undefined ? axis.order[output] : [...Array(axis.regular).keys()];
    const slot = Array(axis.cells).fill([1, 1]);
    order.forEach((cell, i) => { slot[cell] = [ends[i] * room, ends[i + 1] * room]; });
    let from = room;
    special.forEach(([cell, gap, size]) => {
      slot[cell] = [from + gap, from + gap + size];
      from += gap + size;
    });
    return slot;
  }

  const middle = (slot, cell) => (slot[cell][0] + slot[cell][1]) / 2;

  // Where the point of a curve lies that stands for a cell: along logarithms not in its middle.
  function point(axis, slot, cell) {
    if (!axis.middles || cell >= axis.regular) return middle(slot, cell);
    return axis.middles[cell] * slot[axis.regular - 1][1];
  }

  // The cells that have a place, from first to last.
  function inOrder(slot) {
    return [...slot.keys()].filter((cell) => slot[cell][1] > slot[cell][0]).sort((a, b) => slot[a][0] - slot[b][0]);
  }

  // The cell at a place between 0 and 1; -1 where there is none.
  function cellAt(slot, part) {
    return slot.findIndex(([from, to]) => part >= from && part < to);
  }

  // The next cell that is drawn, so many cells on.
  function step(slot, cell, by) {
    const cells = inOrder(slot), next = cells.indexOf(cell) + by;
    return cells[Math.max(0, Math.min(next, cells.length - 1))];
  }

  // How many ticks have room side by side.
  function mostTicks(axis, width) {
    if (!axis.ticks) return Math.floor(width / 105);
    const longest = Math.max(0, ...axis.ticks.at(-1).map(([, text]) => text.length));
    return Math.floor(width / (7 * longest + 22));
  }

  // Of every how many categories one has a name, if at most `most` names have room.
  const everyNamed = (axis, most) => (axis.regular <= mostNamed ? 1 : Math.ceil(axis.regular / Math.max(most, 1)));

  // Writes the ticks of an axis: numbers, or names of categories, at most so many.
  function marks(axis, slot, most, write) {
    if (axis.ticks) {
      const room = slot[axis.regular - 1][1];
      const shown = axis.ticks.filter((ticks) => ticks.length <= most).at(-1) || axis.ticks[0];
      shown.forEach(([part, text]) => write(part * room, text));
    } else {
      const each = everyNamed(axis, most);
      const named = inOrder(slot).filter((cell, i) => cell < axis.regular && i % each === 0);
      named.forEach((cell) => write(middle(slot, cell), shorten(axis.labels[cell], 16)));
    }
    axis.special.forEach(([cell]) => write(middle(slot, cell), axis.labels[cell]));
  }

  // How far down the names of categories reach that do not fit side by side; 0 where they do.
  function depth(axis, width) {
    if (axis.cuts || axis.regular > mostNamed) return 0;
    const longest = Math.max(...axis.labels.map((text) => Math.min(text.length, 16)));
    return longest * 7 > width / axis.regular ? Math.round(longest * 4.8) + 4 : 0;
  }

  // The lines below an axis: the name of the feature, that it is not to scale, what lies beyond, and
  // how many of the categories are named if at most `most` names have room.
  function names(axis, most) {
    const each = axis.ticks ? 1 : everyNamed(axis, most), named = Math.ceil(axis.regular / each);
    const some = each > 1 ? ` (${named} of ${axis.regular} labels shown)` : "";
    return [data.features[axis.feature] + some, ...(axis.notes || [])];
  }

  // The range of effects that a picture shows: with zero, and some room at both ends.
  function extent(values) {
    const low = values.reduce((a, b) => Math.min(a, b), 0), high = values.reduce((a, b) => Math.max(a, b), 0);
    const margin = 0.06 * (high - low) || 1;
    return [low - margin, high + margin];
  }

  // The ticks of a range of effects.
  function ticks(low, high, most) {
    const step = data.steps.find((size) => size * most >= high - low) || high;
    const first = Math.ceil(low / step);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }

  Object.assign(report, { shownAxis, leavesOut, rangeSwitch, inOrder, slots, middle, point, cellAt, step, mostTicks, marks, depth, names, extent, ticks });
})();
