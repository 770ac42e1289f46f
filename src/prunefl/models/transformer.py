"""Small transformers, one for images and one for characters; their attention is of layers that can be pruned."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Self-attention of Linear layers, which nn.MultiheadAttention has none of."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the same shape, (batch, tokens, width)."""
        batch, tokens, width = x.shape
        parts = self.query_key_value(x).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        mixed_back: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return mixed_back


class Block(nn.Module):
    """Attention and a perceptron, each normalised before and added."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.attend, self.attention = nn.LayerNorm(width), Attention(width, heads, causal)
        self.think = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the same shape, (batch, tokens, width)."""
        x = x + self.attention(self.attend(x))
        after: Tensor = x + self.think(x)
        return after


class VisionTransformer(nn.Module):
    """Dosovitskiy et al. 2021, with the mean over patches instead of a class token."""

    def __init__(self, classes: int, channels: int, size: int, patch: int, width: int, depth: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(channels, width, patch, patch)
        self.places = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, 4, causal=False) for _ in range(depth)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return one logit a class, (batch, classes)."""
        tokens = self.cut(images).flatten(2).transpose(1, 2) + self.places
        logits: Tensor = self.out(self.norm(self.blocks(tokens)).mean(1))
        return logits


class CharacterModel(nn.Module):
    """Says at every position which character comes next."""

    def __init__(self, classes: int, tokens: int, width: int, depth: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(classes, width)
        self.places = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self.blocks = nn.Sequential(*(Block(width, 4, causal=True) for _ in range(depth)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, (batch, tokens, classes), of tokens, int64 (batch, tokens)."""
        x = self.characters(tokens) + self.places[:, : tokens.shape[1]]
        logits: Tensor = self.out(self.norm(self.blocks(x)))
        return logits


def vit(classes: int, channels: int, size: int) -> VisionTransformer:
    """Return a small vision transformer for square images whose side four divides; four blocks of width 64."""
    return VisionTransformer(classes, channels, size, patch=4, width=64, depth=4)


def characters(classes: int, size: int) -> CharacterModel:
    """Return a small causal transformer for lines of `size` characters out of so many; two blocks of width 64."""
    return CharacterModel(classes, size, width=64, depth=2)
