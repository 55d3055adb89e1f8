"""Selection of documents by what their roots say."""

from freki.schemas import may_read
from freki.schemas.index import Root, Selection


def is_selected(root: Root, selection: Selection) -> bool:
    """Return whether a document meets all conditions of a selection.

    A deleted document has no source, language and attributes any more, so conditions on these never select it.
    """
    wanted = selection.attributes or {}
    return (
        (root.tenant, root.deleted) == (selection.tenant, selection.deleted)
        and (selection.asker is None or may_read(selection.asker, root.principals))
        and not selection.left_out.has(root.root_id, root.attributes)
        and root.document_id.startswith(selection.prefix)
        and (root.source_uri or "").startswith(selection.source)
        and selection.language in {"", root.language}
        and (not selection.principals or not set(selection.principals).isdisjoint(root.principals))
        and all(root.attributes.get(key) == value for key, value in wanted.items())
        and (not selection.not_made_by or root.fingerprint not in selection.not_made_by)
    )
