"""conf.py - how Sphinx builds the manual: the site and the manual pages of sections 5 and 7, from the same Markdown.

`make manual` runs it on $(B)/manual/source, which assemble.py made from this folder, schema/ and the programs' own tables.
"""

import os

project = "wiremill"
version = release = os.environ["WM_VERSION"]
copyright = "the wiremill authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["deflist", "attrs_block", "colon_fence"]
myst_heading_anchors = 4
root_doc = "index"
source_suffix = {".md": "markdown"}
highlight_language = "none"
smartquotes = False  # two dashes begin an option
nitpicky = False
# A command may go on for several lines ("> "), which the highlighter of consoles does not know.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
add_module_names = False
# The page of the API needs neither NumPy nor the library.
autodoc_mock_imports = ["numpy", "h5py", "wiremill._library"]

html_theme = "furo"
html_title = f"wiremill {release}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = ""
html_search_scorer = os.path.join(os.path.dirname(__file__), "scorer.js")
# Nothing is fetched from elsewhere: the site is read offline.
html_theme_options = {"top_of_page_buttons": []}

man_show_urls = False
man_pages = [
    ("reference/formats", "wiremill-formats", "input files of wiremill", "", 5),
    ("reference/outputs", "wiremill-outputs", "output files of wiremill", "", 5),
    ("reference/files", "wiremill-files", "what a campaign leaves on disk", "", 5),
    ("reference/exit-codes", "wiremill-exit-codes", "exit codes of wiremill", "", 7),
    ("reference/environment", "wiremill-environment", "environment variables of wiremill", "", 7),
    ("reference/security", "wiremill-security", "what wiremill defends, and how", "", 7),
    ("reference/confinement", "wiremill-confinement", "what the processes that read foreign files may do", "", 7),
    ("start/first-campaign", "wiremill-tutorial", "a first campaign, step by step", "", 7),
]
