"""Pages and texts from the templates of the folder `pages`: tables, the ledger, the site."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, select_autoescape

FOLDER = Path(__file__).parent / "pages"

_PAGES = Environment(
    loader=FileSystemLoader(FOLDER), autoescape=select_autoescape(), trim_blocks=True
)


def render(template: str, **values: object) -> str:
    """A template of the folder `pages`, filled in; in one named .html every value is escaped."""
    return _PAGES.get_template(template).render(**values)


def page(name: str, template: str, title: str, css: str = "", **values: object) -> str:
    """The page `name` from a template.

    Every value is escaped but `body`, `css` and the answers of a scene, which must be safe.

    name: the page's path in the site.
    """
    return render(f"{template}.html", title=title, up="../" * name.count("/"), css=css, **values)
