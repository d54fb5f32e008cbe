"""One step of conjugate gradients, in few passes over the slices."""

from treepurify._kernels.compiling import kernel, part

# Sums may be reordered: only then are they computed several numbers at a time.
_SUMS = {"reassoc", "contract"}


@kernel
def take_step(image, active, mass, limit, noise, flattest, going, energy, state, taken):
    """Go along the directions to where the energy is least, and turn them.

    Vectors have shape (n_outputs, n_slices); outputs are solved side by side. `state` holds the
    directions, the parts and the means, which stay zero in slices that are not active. An output
    is `going` until its energy is below its `noise`, or its direction is flatter than `flattest`,
    where it holds nothing but rounding. The length of each step and the share of the last direction
    in the next are written to `taken`.

    Returns how many means are still above `limit`, -1 where no output was going.
    """
    n_above, n_going = 0, 0
    directions, parts, means = state
    for k in range(len(means)):
        direction, mean = directions[k], means[k]
        length = 0.0
        if going[k]:
            curvature, size = _measure(direction, image[k], mass)
            going[k] = curvature > flattest * size
            if going[k]:
                length = energy[k] / curvature
                n_going += 1
        squared, n = _go(length, direction, image[k], active, mass, limit, parts[k], mean)
        n_above += n
        turn = squared / energy[k] if going[k] else 0.0
        for s in range(len(mass)):
            direction[s] = mean[s] + turn * direction[s]
        taken[0, k], taken[1, k] = length, turn
        energy[k] = squared
        going[k] = going[k] and squared > noise[k]
    return n_above if n_going > 0 else -1


@part(fastmath=_SUMS)
def _measure(direction, image, mass):
    """Return the inner products of a direction with its image, and with itself."""
    with_image, with_itself = 0.0, 0.0
    for s in range(len(mass)):
        weighted = mass[s] * direction[s]
        with_image += weighted * image[s]
        with_itself += weighted * direction[s]
    return with_image, with_itself


@part(fastmath=_SUMS)
def _go(length, direction, image, active, mass, limit, parts, mean):
    """Go along a direction; return the square of the means, and how many are above `limit`."""
    squared, n_above = 0.0, 0
    for s in range(len(mass)):
        parts[s] += length * direction[s]
        left = mean[s] - length * image[s]
        left = left if active[s] else 0.0
        mean[s] = left
        squared += mass[s] * left * left
        n_above += abs(left) > limit
    return squared, n_above
