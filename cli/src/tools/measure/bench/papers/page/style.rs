//! Style of the page, for screens of any width and for paper.

pub(super) const STYLE: &str = "\
*{box-sizing:border-box}\
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:0 auto;padding:1rem;color:#222;background:#fff;overflow-wrap:break-word}\
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.3rem;margin-top:3rem;border-bottom:2px solid #ccc}\
h3{font-size:1.1rem;margin-top:2rem}h4{margin:1.5rem 0 .3rem}\
nav{background:#f6f8fa;border:1px solid #ddd;border-radius:6px;padding:.3rem 1rem;margin:1rem 0}\
table{border-collapse:collapse;font-size:13px}thead th{background:#f6f8fa}\
th,td{padding:.25rem .6rem;border-bottom:1px solid #e5e5e5;text-align:right;vertical-align:top}\
th.l,td.l{text-align:left}td.l{min-width:8rem}td.l:nth-child(n+3){min-width:0}\
@media (max-width:40rem){body{font-size:15px}table{font-size:12px}th,td{padding:.2rem .35rem}td.l{min-width:5.5rem}}\
.wide{overflow-x:auto;margin:.5rem 0}\
figure{margin:1.2rem 0;border:1px solid #e5e5e5;border-radius:6px;padding:.4rem}\
figure svg{display:block;width:100%;height:auto;min-width:640px;max-width:860px;margin:0 auto}\
details{margin:.4rem 0}summary{cursor:pointer;color:#0550ae}\
.failed{color:#b2182b;font-weight:600}\
@media print{body{max-width:none;font-size:11px;padding:0}h2{break-before:page}\
figure,tr,h3,h4{break-inside:avoid}h3,h4{break-after:avoid}figure svg{min-width:0;width:auto;max-width:17cm;max-height:22cm}\
.wide{overflow:visible}table{font-size:8px}th,td{padding:.1rem .25rem}td.l{min-width:0}\
details{display:none}nav{break-inside:avoid}}";
