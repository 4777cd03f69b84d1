"""The executor on CPU: device arena, remote pool, copy threads, MindSpore kernels, recorder. Imports mindspore."""
