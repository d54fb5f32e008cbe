"""Run the command line as ``python -m treepurify``."""

from treepurify.cli import main

if __name__ == "__main__":
    main()
