// The timeline on the page of the report: its parts are in the page already, with their names as ids; this fills them with life.

import type { TimelineData } from '../timeline-data.ts';
import { Viewer } from './viewer.ts';

const text = document.getElementById('timeline-data')?.textContent;
if (text) new Viewer(JSON.parse(text) as TimelineData).start();
