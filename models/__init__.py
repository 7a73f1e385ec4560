"""Pure `nn.Module`s.

Nothing here knows of files, processes or the rest of the product.
"""
