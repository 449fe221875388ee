"""halfulp: which weight updates does a low-precision write-back erase, and could it have been forecast?"""

__version__ = "0.1.0"
