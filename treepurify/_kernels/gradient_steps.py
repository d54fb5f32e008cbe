"""The vector operations of one step of conjugate gradients, each in one pass over the slices.

Vectors have shape (n_outputs, n_slices); outputs are solved side by side.
"""

from treepurify._kernels.compiling import kernel


# Sums may be reordered: only then are they computed several numbers at a time.
@kernel(fastmath={"reassoc", "contract"})
def measure_direction(direction, image, mass, curvature, size):
    """Set the inner products of a direction with its image, and with itself."""
    for k in range(len(direction)):
        with_image = 0.0
        with_itself = 0.0
        for s in range(len(mass)):
            weighted = mass[s] * direction[k, s]
            with_image += weighted * image[k, s]
            with_itself += weighted * direction[k, s]
        curvature[k] = with_image
        size[k] = with_itself


@kernel(fastmath={"reassoc", "contract"})
def take_step(length, direction, image, active, mass, limit, parts, mean, energy):
    """Go along a direction; return how many means are still above `limit`.

    Changes `parts` and `mean`, which stays zero in slices that are not active, and sets
    `energy` to the square of the new means.
    """
    n_above = 0
    for k in range(len(mean)):
        squared = 0.0
        for s in range(len(mass)):
            parts[k, s] += length[k] * direction[k, s]
            left = mean[k, s] - length[k] * image[k, s]
            left = left if active[s] else 0.0
            mean[k, s] = left
            squared += mass[s] * left * left
            n_above += abs(left) > limit
        energy[k] = squared
    return n_above


@kernel
def turn_direction(turn, mean, direction):
    """Replace a direction by the means plus `turn` times itself."""
    for k in range(len(mean)):
        for s in range(mean.shape[1]):
            direction[k, s] = mean[k, s] + turn[k] * direction[k, s]
