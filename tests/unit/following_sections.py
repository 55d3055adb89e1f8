"""Citations of sections "and the following", as written without a space, and with one."""

FOLLOWING_SECTIONS = [
    ("§§ 48ff. VwVfG", "§§ 48 ff. VwVfG"),
    ("§§ 48ff.", "§§ 48 ff."),
    ("§§ 535ff BGB", "§§ 535 ff BGB"),
    ("§§ 535aff. BGB", "§§ 535a ff. BGB"),
    ("§§ 3, 5 und 8ff. BGB", "§§ 3, 5 und 8 ff. BGB"),
    ("§48ff. VwVfG", "§48 ff. VwVfG"),
    ("Paragraph 48ff. VwVfG", "Paragraph 48 ff. VwVfG"),
    ("Art. 5ff. GG", "Art. 5 ff. GG"),
    ("Was sagen Artikel 5ff. des Grundgesetzes?", "Was sagen Artikel 5 ff. des Grundgesetzes?"),
    ("§ 5f. BauGB", "§ 5 f. BauGB"),
    ("nach § 5f. der Satzung", "nach § 5 f. der Satzung"),
    ("§\u00a048ff. VwVfG", "§ 48 ff. VwVfG"),
]
