"""The rendered book: builds without a warning, reads without a network, and looks right in a browser."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.notebooks import ROOT

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PAGES = [TOC["root"]] + [page["file"] for part in TOC["parts"] for page in part["chapters"]]
ELSEWHERE = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>|cdn\.|unpkg")
SCREENS = {"wide": (1400, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("jupyter_book", reason="Jupyter Book is not installed: the book was not built")
    out = tmp_path_factory.mktemp("book")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", "-W", "-n", "--keep-going"]
    done = subprocess.run([*command, "--path-output", out, ROOT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / "_build/html"


def test_every_page_is_there(site):
    assert [page for page in PAGES if not (site / f"{page}.html").exists()] == []
    assert (site / "index.html").exists()


def test_nothing_comes_from_elsewhere(site):
    found = {page.name: ELSEWHERE.findall(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    assert {name: hits for name, hits in found.items() if hits} == {}


@pytest.mark.parametrize("page", ["README.md", "book/index.md"])
def test_the_kernel_on_the_page_runs(page, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "page.py").write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, tmp_path / "page.py"], check=True, timeout=120)


# -- in a browser ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium and chromedriver: the rendered book was not looked at in a browser")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for switch in (
        "headless=new no-sandbox disable-gpu disable-quic no-first-run hide-scrollbars "
        "disable-background-networking disable-component-update disable-sync"
    ).split():
        options.add_argument(f"--{switch}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    chrome = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


def look(browser, url, width, height, scheme="light"):
    """Open a page on a screen of that size; give back what the browser complains about."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(url)
    browser.execute_async_script("(window.MathJax?.startup?.promise ?? Promise.resolve()).then(() => arguments[0]())")
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_page_in_browser(site, browser, tmp_path, page, screen, scheme):
    complaints = look(browser, f"file://{site}/{page}.html", *SCREENS[screen], scheme)
    browser.execute_script("document.getAnimations().forEach(animation => animation.finish())")
    browser.save_screenshot(str(tmp_path / f"{page.replace('/', '-')}-{screen}-{scheme}.png"))
    assert complaints == []
    ask = browser.execute_script
    assert ask("return document.documentElement.dataset.theme") == scheme
    assert ask("return document.documentElement.scrollWidth") <= SCREENS[screen][0], "wider than the screen"
    assert ask("return performance.getEntriesByType('resource').map(e => e.name).filter(n => /^http/.test(n))") == []
    assert ask("return [...document.images].filter(i => !i.naturalWidth || !i.alt).map(i => i.src)") == []
    assert ask("return document.querySelectorAll('span.math, div.math').length") == ask(
        "return document.querySelectorAll('mjx-container').length"
    )
    assert ask("return document.querySelectorAll('mjx-merror, .problematic').length") == 0


@pytest.mark.browser
def test_search_finds_pages_without_a_server(site, browser):
    from selenium.webdriver.support.ui import WebDriverWait

    complaints = look(browser, f"file://{site}/search.html?q=interpreter", *SCREENS["wide"])
    found = "return [...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
    WebDriverWait(browser, 20).until(lambda _: any("how-to-use" in link for link in browser.execute_script(found)))
    assert complaints + [entry["message"] for entry in browser.get_log("browser")] == []
