"""explain(): the plan of a descriptor as text, and as pictures in a notebook."""

import json
from html import escape
from typing import Any

from cubit import _library

ROW, WIDTH, LABEL = 22, 720, 150
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d")


class Explanation:
    """The plan of a descriptor: `print` shows text, a notebook shows decisions and a map of shared memory."""

    def __init__(self, plan: dict[str, Any], layouts: dict[str, Any]) -> None:
        self.plan, self.layouts = plan, layouts

    def __str__(self) -> str:
        lines = [f"{self.plan['descriptor']} on {self.plan['architecture']}"]
        for one in self.plan.get("decisions", ()):
            lines.append(f"  {one['name']} = {one['value']}: {one['why']}")
        for one in self.plan.get("rejections", ()):
            lines.append(f"  not {one['family']}: {one['why']}")
        for one in self.plan.get("members", ()):
            serves = ", ".join(f"{some['sizes']}: {some['launches']}" for some in one["serves"] if some["launches"])
            lines.append(f"  {one['descriptor']} ({one['family']}) {serves}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{escape(one['name'])}</td><td>{escape(one['value'])}</td>"
                       f"<td>{escape(one['why'])}</td></tr>" for one in self.plan.get("decisions", ()))
        members = "".join(f"<li><code>{escape(one['descriptor'])}</code></li>" for one in self.plan.get("members", ()))
        title = f"<b><code>{escape(self.plan['descriptor'])}</code></b> on {escape(self.plan['architecture'])}"
        return f"<div>{title}<table>{rows}</table><ul>{members}</ul>{self._repr_svg_() or ''}</div>"

    def _repr_svg_(self) -> str | None:
        """The dynamic shared memory of a block; None for a set of kernels, which has no layout of its own."""
        memory = self.layouts.get("memory", {})
        regions = memory.get("regions", ())
        if not regions:
            return None
        total = max(memory["bytes"], 1)
        scale = (WIDTH - LABEL - 10) / total
        parts = []
        for i, one in enumerate(regions):
            x, wide = LABEL + one["offset"] * scale, max(one["bytes"] * scale, 1)
            colour = COLOURS[sorted({some["phase"] for some in regions}).index(one["phase"]) % len(COLOURS)]
            name = escape(f"{one['owner']}: {one['name']}")
            parts.append(f'<rect x="{x:.1f}" y="{i * ROW + 4}" width="{wide:.1f}" height="{ROW - 8}" fill="{colour}">'
                         f"<title>{name}, phase {escape(str(one['phase']))}, {one['bytes']} bytes</title></rect>"
                         f'<text x="0" y="{i * ROW + 15}" font-size="11" font-family="sans-serif">{name}</text>')
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{len(regions) * ROW + 4}">'
                f"<title>shared memory of a block, {total} bytes</title>{''.join(parts)}</svg>")


def explain(descriptor: str, architecture: str = "sm_90a") -> Explanation:
    """The plan of a descriptor for an architecture. Needs no GPU and no compiler."""
    plan = json.loads(_library.text("cubit_explain", descriptor, architecture))
    if "members" in plan:
        return Explanation(plan, {})
    return Explanation(plan, json.loads(_library.text("cubit_explain_layouts", descriptor, architecture)))
