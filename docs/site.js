// What scrolls by itself is in reach of the keyboard. The theme takes this from code again, whose box has it then.
const boxes = ".md-typeset :is(pre, .md-typeset__scrollwrap, table.dataframe, p, li)";
const reach = () => {
  for (const own of document.querySelectorAll(boxes))
    if (own.scrollWidth > own.clientWidth && getComputedStyle(own).overflowX === "auto") own.tabIndex = 0;
};
addEventListener("load", reach);
addEventListener("resize", reach);

// A page that is opened from a file has no search.
if (location.protocol === "file:") {
  const note = document.createElement("small");
  note.style.fontSize = ".7rem";
  note.textContent = "To search: python -m http.server -d site";
  document.querySelector(".md-header__inner").append(note);
}
