"""Kernel max-sliced Wasserstein distances with certified bounds, and the two-sample test built on them."""
__version__ = "0.1.0"

from .kernels import Gaussian, Laplace, Linear, Precomputed, RandomFourier, Witness, median_bandwidth
from .distance import KMSResult, kms_distance
from .testing import KMSTestResult, kms_test

__all__ = ["kms_distance", "kms_test", "Gaussian", "Laplace", "Linear", "Precomputed", "RandomFourier", "median_bandwidth", "KMSResult", "KMSTestResult", "Witness"]
