// What scrolls by itself is in reach of the keyboard. The theme takes this from code again, whose box has it then.
const boxes = ".md-typeset :is(pre, .md-typeset__scrollwrap, table.dataframe, p, li)";
const reach = () => {
  for (const own of document.querySelectorAll(boxes))
    if (own.scrollWidth > own.clientWidth && getComputedStyle(own).overflowX === "auto") own.tabIndex = 0;
};
addEventListener("load", reach);
addEventListener("resize", reach);

// Browsers keep the search from a page that was opened as a file: say how to have it.
if (location.protocol === "file:") {
  const note = document.createElement("p");
  note.className = "from-file";
  note.innerHTML = "Opened as a file, this site has no search. Serve it: <code>python -m http.server --directory site</code>, then <code>http://localhost:8000</code>.";
  document.querySelector(".md-content__inner").prepend(note);
}

// To the search a leading hyphen means "without"; here it begins an option.
addEventListener("input", ({ target }) => {
  if (target.matches(".md-search__input")) target.value = target.value.replace(/(^|\s)-+/g, "$1").replaceAll("-", " ");
}, true);
