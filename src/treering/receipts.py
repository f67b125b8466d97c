"""Receipts of the ledger's operations: counts, never content."""

from __future__ import annotations

from treering.model.intakes import ImportReceipt, SourceReceipt
from treering.model.memories import ExtractReceipt, FadeReceipt, MergeReceipt
from treering.model.receipts import (
    AnchorReceipt,
    Broken,
    CopyReceipt,
    DatabaseStatus,
    DestroyReceipt,
    ExpireReceipt,
    ExportReceipt,
    ForgetReceipt,
    InitReceipt,
    KeyGeneration,
    KeyReceipt,
    RebuildReceipt,
    RedactReceipt,
    RestoreReceipt,
    ScrubReceipt,
    SweepReceipt,
    VectorsReceipt,
    Verification,
)

__all__ = [
    "AnchorReceipt",
    "Broken",
    "CopyReceipt",
    "DatabaseStatus",
    "DestroyReceipt",
    "ExpireReceipt",
    "ExportReceipt",
    "ExtractReceipt",
    "FadeReceipt",
    "ForgetReceipt",
    "ImportReceipt",
    "InitReceipt",
    "KeyGeneration",
    "KeyReceipt",
    "MergeReceipt",
    "RebuildReceipt",
    "RedactReceipt",
    "RestoreReceipt",
    "ScrubReceipt",
    "SourceReceipt",
    "SweepReceipt",
    "VectorsReceipt",
    "Verification",
]
