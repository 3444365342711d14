"""The wheel has one package, convnlp, with the folders that stand beside it in the repository inside."""

from setuptools import find_packages, setup

FOLDERS = ("configs", "export", "serving")

setup(
    packages=[
        *find_packages(include=["convnlp", "convnlp.*"]),
        *(f"convnlp.{name}" for folder in FOLDERS for name in find_packages(include=[folder, f"{folder}.*"])),
    ],
    package_dir={f"convnlp.{folder}": folder for folder in FOLDERS},
)
