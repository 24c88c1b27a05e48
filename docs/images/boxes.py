"""Draws docs/images/boxes.svg: patients as dots, and the boxes in which they hide. Run: python docs/images/boxes.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import shoal

WIDTH, HEIGHT, EDGE = 760, 420, 46


def patients(rows: int = 420) -> pd.DataFrame:
    """Ages, and travel times that grow with them."""
    rng = np.random.default_rng(4)
    age = np.clip(rng.gamma(6, 8, rows), 1, 98).round()
    minutes = np.clip(rng.gamma(2.2, 9, rows) * (0.5 + age / 80), 1, 110).round()
    return pd.DataFrame({"age": age, "minutes": minutes})


def ends(label: str) -> tuple[float, float]:
    """The two ends of a published label."""
    parts = label.strip("[]").split(", ")
    return float(parts[0]), float(parts[-1])


def draw(raw: pd.DataFrame, released: pd.DataFrame) -> str:
    """The picture as SVG."""

    def across(age: float) -> float:
        return EDGE + (age / 100) * (WIDTH - 2 * EDGE)

    def down(minutes: float) -> float:
        return HEIGHT - EDGE - (minutes / 112) * (HEIGHT - 2 * EDGE)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fbfcfd"/>',
        f'<text x="{EDGE}" y="26" fill="#234">{len(raw)} patients, {len(released.drop_duplicates())} boxes, at least 10 in '
        "each: a dot is a person, a box is what is published</text>",
    ]
    for _, row in released.drop_duplicates().iterrows():
        (x0, x1), (y0, y1) = ends(row["age"]), ends(row["minutes"])
        parts.append(
            f'<rect x="{across(x0) - 4:.1f}" y="{down(y1) - 4:.1f}" width="{across(x1) - across(x0) + 8:.1f}" '
            f'height="{down(y0) - down(y1) + 8:.1f}" rx="4" fill="#3b7ea1" fill-opacity=".12" stroke="#3b7ea1"/>'
        )
    parts += [
        f'<circle cx="{across(r.age):.1f}" cy="{down(r.minutes):.1f}" r="2.6" fill="#17384a" fill-opacity=".7"/>'
        for r in raw.itertuples()
    ]
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle" fill="#234">age in years</text>')
    middle = HEIGHT / 2
    parts.append(
        f'<text x="16" y="{middle}" text-anchor="middle" fill="#234" transform="rotate(-90 16 {middle})">'
        "minutes to the hospital</text></svg>"
    )
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write the picture beside this file."""
    raw = patients()
    policy = shoal.Policy(quasi={"age": "numeric", "minutes": "numeric"}, require=[shoal.KAnonymity(10)])
    released = shoal.anonymize(raw, policy).frame
    Path(__file__).with_name("boxes.svg").write_text(draw(raw, released), encoding="utf-8")


if __name__ == "__main__":
    main()
