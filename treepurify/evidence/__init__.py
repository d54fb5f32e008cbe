"""How sure an effect is: trainings that are repeated."""
