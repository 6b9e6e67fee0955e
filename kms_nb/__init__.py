"""Kernel max-sliced Wasserstein distances with certified bounds, and the two-sample test built on them."""
__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:          # what editors and type checkers read; at run time `__getattr__` imports a name when it is first used
    from .distance import KMSResult, kms_distance
    from .groups import compare_groups, detect_change
    from .kernels import Gaussian, Laplace, Linear, Precomputed, RandomFourier, Witness, median_bandwidth
    from .projector import KMSProjector
    from .testing import KMSTestResult, kms_test

_HOMES = {"kms_distance": "distance", "kms_test": "testing", "Gaussian": "kernels", "Laplace": "kernels", "Linear": "kernels", "Precomputed": "kernels",
          "RandomFourier": "kernels", "median_bandwidth": "kernels", "KMSResult": "distance", "KMSTestResult": "testing", "Witness": "kernels",
          "compare_groups": "groups", "detect_change": "groups", "KMSProjector": "projector"}
__all__ = [*_HOMES]


def __getattr__(name):
    "A public name or a module of the package, imported on first use (PEP 562), so that `import kms_nb` and the program `kms` start at once."
    from importlib import import_module
    if name in _HOMES: value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name.startswith("_"): raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        try: value = import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}": raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__(): return sorted({*globals(), *__all__})
