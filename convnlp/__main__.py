"""`python -m convnlp NAME ...`."""

from convnlp.command import main

if __name__ == "__main__":
    main()
