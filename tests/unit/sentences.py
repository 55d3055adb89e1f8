"""Passages whose sentences end at ‖ and nowhere else: what trips splitters up in German and English."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

GERMAN = """
Der Vermieter hat die Sache zu überlassen.‖ Der Mieter zahlt die Miete.
Nach § 3 Abs. 2 Satz 1 Nr. 4 der Satzung gilt das nicht.‖ Es gilt nur hier.
Das regelt die Verordnung i. V. m. Art. 6 GG.‖ Näheres steht im Anhang.
Die Frist endet am 1. Mai.‖ Danach ist nichts mehr möglich.
Die Frist endet am 1\\. Mai 2015.‖ Danach ist nichts mehr möglich.
Am 17.6.2004 wurde das Gesetz neu gefasst.‖ Seitdem gilt es unverändert.
Herr Dr. Kühne kam um 14.30 Uhr.‖ Frau Prof. Dr. Meier kam später.
**Dr. Aylin Demirel** leitet das Amt.‖ *Nr. 5* und __Art. 6__ gelten am *1. Mai*.‖ Das genügt.
**Die Frist endet.**‖ Danach ist nichts mehr möglich.‖ *Das gilt immer!*‖ _Niemand widerspricht._‖ Gut.
Das kostet z. B. 50.000 Euro.‖ Mehr zahlt niemand.
Das kostet z.B. 50.000 Euro.‖ Mehr zahlt niemand.
Er fragte: „Wann kommt der Zug?“‖ Niemand wusste es.
„Ich komme.“‖ Das war alles, was sie sagte.
Sie rief „Halt!“ und lief weiter.‖ Keiner blieb stehen.
Kommt er heute?‖ Oder erst morgen?‖ Das ist offen!
Das gilt auch für Hunde, Katzen usw.‖ Andere Tiere sind verboten.
Ludwig XIV. regierte lange.‖ Sein Sohn nicht.
Im 19. Jahrhundert gab es das nicht.‖ Heute schon.
Siehe Abb. 3 und Tab. 2 auf S. 17.‖ Dort steht alles.
Die Fa. Müller & Co. KG liefert.‖ Wir zahlen.
Das Amt (vgl. Rn. 12 ff.) prüft den Antrag.‖ Es entscheidet schnell.
Die Behörde ist zuständig (§ 5 Abs. 1).‖ Sie entscheidet.
Der Antrag ist zu stellen.‖ (2) Die Behörde entscheidet.
Die Zahl stieg um 3,5 Prozent.‖ 2023 waren es 4 Prozent.
Das ist alles ... mehr nicht.‖ Wirklich.
Er zögerte …‖ Dann ging er.
Wir treffen uns Mo. bis Fr. von 9 bis 17 Uhr.‖ Samstags ist zu.
Das Urteil des BGH vom 3. März 2010 ist bekannt.‖ Es wird oft zitiert.
Die Datei heißt readme.txt.‖ Sie liegt im Ordner.
Schreiben Sie an info@example.org.‖ Wir antworten bald.
Besuchen Sie www.example.org.‖ Dort finden Sie mehr.
Nr. 5 ist aufgehoben.‖ Nr. 6 gilt weiter.
Das ist ca. 3 km lang, d. h. etwa eine halbe Stunde zu Fuß.‖ Gehen Sie los.
Max. 20 Personen, mind. 2 Betreuer.‖ Kinder zählen mit.
Die Miete beträgt 800 € zzgl. Nebenkosten.‖ Die Kaution ist extra.
Sie wohnt in der Goethestr. 5 in Köln.‖ Er wohnt nebenan.
Das sagt Art. 5 Abs. 1 S. 1 GG.‖ Zensur findet nicht statt.
A. Merkel und H. Kohl waren Kanzler.‖ W. Brandt auch.
Es gab u. a. Brot und Käse.‖ Alles war frisch.
Haben Sie Fragen?‖ Rufen Sie an: Tel. 030 1234.
Die Versammlung beschließt.‖ § 7 bleibt unberührt.
Der Verein hat seinen Sitz in St. Gallen.‖ Er wurde 1990 gegründet.
Das macht 3 Mio. Euro.‖ Das ist viel.
Nach § 12 Abs. 1 Alt. 2 BGB gilt das.‖ Nach Abs. 2 Hs. 2 und Halbs. 1 nicht.
Siehe BT-Drs. 17/123 und Tz. 5.‖ Auch Unterabs. 3 und Var. 2 zählen.
Das Urt. v. 3. März 2010 und der Beschl. v. 12. Dezember gelten.‖ Das v. 3. 4. 2011 gilt nicht.
Das gilt bspw. Mietern bzgl. Mietverträgen und lt. Vertrag.‖ Sonst gilt es nicht.
Er starb 44 v. Chr. Geburt.‖ Andere starben 30 v. Chr.‖ Danach war Ruhe.
Dipl.-Ing. Müller wohnt Karl-Marx-Str. 5.‖ Das steht unter Gl.-Nr. 400-2.
Das Haus ist alt.‖ 2 Personen wohnen dort im 2. Halbs.‖ Das genügt.
Das Gesetz (GVBl. S. 284) gilt.‖ Das Gesetz (GVBl. I S. 12) auch.
Siehe GV. NRW. S. 213.‖ Siehe Nds. GVBl. S. 12.‖ Siehe GV. NW. S. 5 und GV. NRW. 2024 S. 7.
Das steht im SächsGVBl. S. 5, in GVOBl. Schl.-H. S. 4, GMBl. 2020 S. 3, BStBl. II S. 1 und Hmb.GVBl. S. 9.
Er steht im MBl. NRW. S. 2.‖ Dort steht er richtig.
Das Staatsministerium (StAnz. S. 12, BAnz. AT 3.4.2020) teilt mit.‖ Das Amtsbl. S. 4 auch.
Die Reg.-Bez. Köln und der Reg.-Präs. Darmstadt antworten.‖ Der Bez. Mitte auch.
Dafür zahlt das Land NRW.‖ Sie gilt.‖ So war es in NRW.‖ 2023 waren es mehr.
Es kam aus NRW.‖ So steht es dort.‖ Er liebt den Tanz.‖ Sie fuhr nach Banz.‖ Sonst nichts.
Das sagte Herr Liebl.‖ Es gilt für aG oder Bl.‖ Er war an der GV.‖ Der Vorstand ging aus der GV.‖ 2023 gab es keine.
Wir fanden das Gen und das Hox-Gen.‖ Dann kam Plan-B.‖ Es gab 3.‖ Maier zählte nach.
"""

ENGLISH = """
The landlord keeps the house.‖ The tenant pays the rent.
Dr. Smith met Mr. Jones at 5 p.m. on Monday.‖ They talked.
See Fig. 3 and Eq. 2 in Sec. 4.‖ The rest follows.
The U.S. Army arrived in Jan. 1945.‖ It left soon.
Apple Inc. bought it for $3.5 million.‖ Nobody complained.
He asked, "Who is there?"‖ Nobody answered.
"I am here."‖ She said no more.
She shouted "Stop!" and ran.‖ Nobody stopped.
Is it done?‖ Yes!‖ Then we go.
Install Python 3.11.‖ Then run the script.
Use os.path to join names.‖ It works everywhere.
The file is called setup.py.‖ Run it once.
This holds for cats, dogs, etc.‖ Birds are excluded.
Smith et al. showed this in 2010.‖ Others disagree.
Compare A vs. B carefully.‖ Choose one.
J. R. R. Tolkien wrote it.‖ It sold well.
The value is approx. 3.14.‖ Round it.
Use it, e.g. for tests, i.e. never in production.‖ That is all.
Visit www.example.org.‖ You will find more.
Write to info@example.org.‖ We answer soon.
No. 5 is alive.‖ No. 6 is not.
Chapter 2 begins here.‖ 3 people read it.
He paused ...‖ Then he left.
Wait... what is that?‖ Nothing.
The company (see p. 12) grew.‖ It moved to Washington, D.C. last year.
St. Paul's is old.‖ It is large.
It ended (finally.)‖ Everyone cheered.
He lives in the U.K. and works there.‖ She does not.
Ph.D. students pay less.‖ Others pay more.
Version 2.0.1 is out.‖ Version 3 follows.
Set max_tokens=5.‖ Values above 10 are refused.
The flow is laminar (Re < 2300).‖ Above that it is not.
It costs 5 dollars.‖ However, it is worth it.
The meeting is on Nov. 3.‖ Bring notes.
Gen. Grant won.‖ Lee lost.
Under reg. 4, ss. 13 and 14, sch. 2 and para. 2 this holds.‖ Cf. Smith for more.
Read the rest of the para.‖ Then read the next ch.‖ It is short.
"""


def marked(text: str, ends: Iterable[int]) -> str:
    """Write ‖ after each sentence, given where the next ones begin."""
    edges = [0, *ends, len(text)]
    parts = [text[start:end] for start, end in pairwise(edges)]
    return "‖".join(f"{space}{part.rstrip()}" for part, space in zip(parts, _spaces(parts), strict=True))


def _spaces(parts: Sequence[str]) -> list[str]:
    """Give the white space that ends the part before each part."""
    return ["", *(part[len(part.rstrip()) :] for part in parts[:-1])]
