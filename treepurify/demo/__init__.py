"""The demonstration: real data that come with the package, and a model at its defaults."""

from treepurify.demo.data import DATASETS, DemoData, load_demo_data
from treepurify.demo.model import DemoModel, train_demo_model

__all__ = ["DATASETS", "DemoData", "DemoModel", "load_demo_data", "train_demo_model"]
