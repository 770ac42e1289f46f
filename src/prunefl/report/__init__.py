"""From records to one page, its figures and its tables. Reads run folders, never live objects."""

from prunefl.report.write import check_targets, refuse_foreign_page, write_report

__all__ = ["check_targets", "refuse_foreign_page", "write_report"]
