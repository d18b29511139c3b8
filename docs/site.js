// What scrolls by itself is in reach of the keyboard. The theme takes this from code again, whose box has it then.
const boxes = ".md-typeset :is(pre, .md-typeset__scrollwrap, table.dataframe, p, li)";
const reach = () => {
  for (const own of document.querySelectorAll(boxes))
    if (own.scrollWidth > own.clientWidth && getComputedStyle(own).overflowX === "auto") own.tabIndex = 0;
};
addEventListener("load", reach);
addEventListener("resize", reach);
