// A slider and a number field for each parameter; for runs the slider is the bar of the share.

import { placeOf, steps, valueAt } from "explore/source";

export function makeSliders(parent, parameters, onChange, areShares = false) {
  const rows = parameters
    .filter((own) => !own.fixed)
    .map((own) => {
      const row = document.createElement("div");
      row.className = "parameter";
      const label = document.createElement("label");
      for (const word of own.name.split(/(?<=_)/)) label.append(word, document.createElement("wbr"));
      label.title = own.what;
      label.htmlFor = `slider-${own.name}`;
      const slider = document.createElement("input");
      Object.assign(slider, { type: "range", id: `slider-${own.name}`, min: 0, max: steps, step: 1 });
      const field = document.createElement("input");
      Object.assign(field, { type: "number", min: own.low, max: own.high, step: "any" });
      field.setAttribute("aria-label", `${own.name}, a number from ${own.low} to ${own.high}`);
      const what = document.createElement("small");
      what.textContent = [own.what, own.unit && `in ${own.unit}`].filter(Boolean).join(", ");
      slider.addEventListener("input", () => onChange({ [own.name]: valueAt(own, slider.value / steps) }));
      field.addEventListener("change", () => {
        const value = Number(field.value);
        const inside = field.value !== "" && value >= own.low && value <= own.high;
        field.setCustomValidity(inside ? "" : `enter a number from ${own.low} to ${own.high}`);
        if (inside) onChange({ [own.name]: value });
        else field.reportValidity();
      });
      row.append(label, slider, field, ...(areShares ? [] : [what]));
      parent.append(row);
      return { own, slider, field };
    });
  return (setting, isFinal = false) => {
    for (const { own, slider, field } of rows) {
      const value = setting[own.name];
      slider.value = Math.round(placeOf(own, value) * steps);
      slider.setAttribute("aria-valuetext", `${own.name} ${value}`);
      if (isFinal || document.activeElement !== field) field.value = Number(value.toPrecision(6));
    }
  };
}
