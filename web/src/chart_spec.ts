// The contents of a chart.
export interface ChartSpec {
  title: string;
  names: string[];
  labels?: string[];  // short labels for the curves
  opens: "step" | "eval" | null;
  about?: string;     // what the curves mean, in one line below the title
  x?: string;         // title of the horizontal axis; default: steps
}

export const kColours = ["#c2571a", "#2f74b5", "#3a8a54", "#8a5ab5", "#b5852f", "#b53a5c", "#3a9aa0", "#7a7a7a"];
