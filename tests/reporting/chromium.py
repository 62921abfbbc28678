"""A real browser without a window, for tests and benchmarks of the report."""

from __future__ import annotations

import shutil
from typing import Any

OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


def started() -> Any | None:
    """Start Chromium; None where it or its driver is missing."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        return None
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = program
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))
