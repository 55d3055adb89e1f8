"""Array types shared by all packages."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
"""Vectors and scores."""
FloatsOfAnyWidth = NDArray[np.float32] | NDArray[np.float64]
"""Vectors and scores where single precision is not required."""
