"""The report on paper, as a browser prints it."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from support.fits import topic_fit
from test_report import METRICS

from simplex_jax._src.models import files, lda

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WORD = re.compile(r'yMin="([\d.]+)" xMax="[\d.]+" yMax="([\d.]+)">([^<]*)</word>')


@pytest.mark.skipif(
    not (BROWSER and shutil.which("pdftotext")), reason="wants chromium and poppler-utils"
)
def test_shares_end_above_the_chart_and_closed_lists_are_not_printed(tmp_path):
    count = 40
    vocabulary = tuple(f"word{i:03d}" for i in range(count))
    mean = np.full((count, count), 0.5 / count) + 0.5 * np.eye(count)
    whole = topic_fit(
        mean.astype(np.float32),
        vocabulary,
        metrics=METRICS,
        prevalence=np.arange(count, 0, -1) / (count * (count + 1) / 2),
        prevalence_sd=np.full(count, 1e-3),
        examples=[
            [{"name": f"document{i}", "share": 0.9, "words": ["river"], "text": ""}]
            for i in range(count)
        ],
    )
    files.report(lda.MODEL, whole, tmp_path / "report.html")
    printed = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    printed += [f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={tmp_path / 'a.pdf'}"]
    subprocess.run(
        [BROWSER, *printed, str(tmp_path / "report.html")], check=True, capture_output=True
    )
    boxes = ["pdftotext", "-bbox", str(tmp_path / "a.pdf"), "-"]
    shown = subprocess.run(boxes, check=True, capture_output=True, text=True).stdout
    pages = [WORD.findall(page) for page in shown.split("<page ")[1:]]
    words = [
        (number, float(top), float(bottom), text)
        for number, page in enumerate(pages)
        for top, bottom, text in page
    ]
    size = max(bottom - top for _, top, bottom, text in words if text == "Quality")
    chart = min(
        place[:2] for place in words if place[3] == "Quality" and place[2] - place[1] == size
    )
    leading = [place[:2] for place in words if place[3] == vocabulary[-1]]
    assert leading, "the last topic of the list is printed"
    assert leading[0] < chart
    assert not any(text.startswith("document0") for *_, text in words)
    assert len(pages) <= 8
