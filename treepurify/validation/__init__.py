"""What a validator signs, and an applicant is told."""
